#include <cudnn_frontend.h>

#include "dnn.h"
namespace fe = cudnn_frontend;
#define CD(x)                                                                          \
  do {                                                                                 \
    auto e_ = (x);                                                                     \
    if (e_.is_bad()) {                                                                 \
      printf("FAIL %s:%d %s: %s\n", __FILE__, __LINE__, #x, e_.get_message().c_str()); \
      fflush(stdout);                                                                  \
      _exit(3);                                                                        \
    }                                                                                  \
  } while (0)

static fe::graph::Graph& graph(std::shared_ptr<void>& g) { return *static_cast<fe::graph::Graph*>(g.get()); }

Sdpa::Sdpa(cudnnHandle_t h, int64_t N, int64_t D, int64_t Sq, int64_t Skv, int64_t rq, int64_t rkv, int64_t ro,
           bool lse, bool pad, bool quiet, int plan_) {
  plan = plan_;
  double t0 = now();
  auto g = std::make_shared<fe::graph::Graph>();
  this->g = g;
  g->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  auto T = [&](const char* n, int64_t uid, int64_t S, int64_t row) {
    return g->tensor(
        fe::graph::Tensor_attributes().set_name(n).set_uid(uid).set_dim({1, N, S, D}).set_stride({S * row, D, row, 1}));
  };
  auto q = T("q", 1, Sq, rq), k = T("k", 2, Skv, rkv), v = T("v", 3, Skv, rkv);
  auto o =
      fe::graph::SDPA_attributes().set_name("sdpa").set_generate_stats(lse).set_attn_scale(1.0f / std::sqrt((float)D));
  if (pad) {
    auto L = [&](const char* n, int64_t uid) {
      return g->tensor(fe::graph::Tensor_attributes()
                           .set_name(n)
                           .set_uid(uid)
                           .set_dim({1, 1, 1, 1})
                           .set_stride({1, 1, 1, 1})
                           .set_data_type(fe::DataType_t::INT32));
    };
    o.set_padding_mask(true).set_seq_len_q(L("lq", 6)).set_seq_len_kv(L("lk", 7));
  }
  auto [O, st] = g->sdpa(q, k, v, o);
  O->set_output(true).set_uid(4).set_dim({1, N, Sq, D}).set_stride({Sq * ro, D, ro, 1});
  if (lse)
    st->set_output(true)
        .set_uid(5)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim({1, N, Sq, 1})
        .set_stride({N * Sq, Sq, 1, 1});
  auto step = [&](fe::error_t e, const char* what) {
    if (e.is_good()) return true;
    if (!quiet) out("  plan refused at %s: %s\n", what, e.get_message().c_str());
    return false;
  };
  if (!step(g->validate(), "validate") || !step(g->build_operation_graph(h), "graph")) return;
  double t1 = now();
  if (!step(g->create_execution_plans({fe::HeurMode_t::A}), "heuristics") || !step(g->check_support(h), "support"))
    return;
  double t2 = now();
  if (!step(plan < 0 ? g->build_plans(h, fe::BuildPlanPolicy_t::HEURISTICS_CHOICE) : g->build_plan_at_index(h, plan),
            "build"))
    return;
  double t3 = now();
  t_graph = (t1 - t0) * 1e3, t_heur = (t2 - t1) * 1e3, t_build = (t3 - t2) * 1e3;
  plans = g->get_execution_plan_count();
  plan < 0 ? (void)g->get_plan_name(name) : (void)g->get_plan_name_at_index(plan, name);
  ws = plan < 0 ? g->get_workspace_size() : g->get_workspace_size_plan_at_index(plan);
  ok = true;
}
void Sdpa::run(cudnnHandle_t h, const bf16* q, const bf16* k, const bf16* v, bf16* o, float* lse, void* w, int* lq,
               int* lk) {
  std::unordered_map<int64_t, void*> m{{1, (void*)q}, {2, (void*)k}, {3, (void*)v}, {4, o}};
  if (lse) m[5] = lse;
  if (lq) m[6] = lq, m[7] = lk;
  if (plan < 0)
    CD(graph(g).execute(h, m, w));
  else
    CD(graph(g).execute_plan_at_index(h, m, w, plan));
}

Conv::Conv(cudnnHandle_t h, const Shape& s, bool halo_h) {
  auto g = std::make_shared<fe::graph::Graph>();
  this->g = g;
  g->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  int64_t T = s.T + 2, H = halo_h ? s.H + 2 : s.H, W = s.W, I = s.I, O = s.O;
  auto x = g->tensor(fe::graph::Tensor_attributes()
                         .set_name("x")
                         .set_uid(1)
                         .set_dim({1, I, T, H, W})
                         .set_stride({T * H * W * I, 1, H * W * I, W * I, I}));
  auto w = g->tensor(fe::graph::Tensor_attributes()
                         .set_name("w")
                         .set_uid(2)
                         .set_dim({O, I, 3, 3, 3})
                         .set_stride({27 * I, 1, 9 * I, 3 * I, I}));
  auto y = g->conv_fprop(x, w,
                         fe::graph::Conv_fprop_attributes()
                             .set_padding({0, halo_h ? 0 : 1, 1})
                             .set_stride({1, 1, 1})
                             .set_dilation({1, 1, 1}));
  y->set_output(true)
      .set_uid(3)
      .set_dim({1, O, s.T, s.H, s.W})
      .set_stride({s.T * s.H * s.W * O, 1, s.H * s.W * O, s.W * O, O});
  auto ok = [&](fe::error_t e) {
    if (e.is_bad()) error = e.get_message();
    return e.is_good();
  };
  if (!ok(g->validate()) || !ok(g->build_operation_graph(h)) ||
      !ok(g->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK})))
    return;
  (void)g->check_support(h);
  n = g->get_execution_plan_count();
}
bool Conv::build(cudnnHandle_t h, int64_t i) { return graph(g).build_plan_at_index(h, i).is_good(); }
int64_t Conv::workspace(int64_t i) { return graph(g).get_workspace_size_plan_at_index(i); }
std::string Conv::name(int64_t i) {
  std::string s;
  (void)graph(g).get_plan_name_at_index(i, s);
  return s;
}
bool Conv::run(cudnnHandle_t h, int64_t i, const bf16* x, const bf16* w, bf16* y, void* ws) {
  std::unordered_map<int64_t, void*> m{{1, (void*)x}, {2, (void*)w}, {3, y}};
  return graph(g).execute_plan_at_index(h, m, ws, i).is_good();
}
