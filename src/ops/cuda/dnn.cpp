// The one file that sees cuDNN's frontend.
#include "ops/cuda/dnn.h"
#include "ops/cuda/fast_attention.h"

#include <cudnn.h>
#include <cudnn_frontend.h>

#include <source_location>

#include "base/error.h"
#include "ops/cuda/measure.h"
#include "ops/cuda/plan_choice.h"

namespace fe = cudnn_frontend;

namespace zoetrope::cuda {
namespace {

using fe::graph::Graph;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;
using Dims = std::vector<int64_t>;

void check(cudnnStatus_t e, std::source_location at = std::source_location::current()) {
  if (e == CUDNN_STATUS_SUCCESS) return;
  fail(e == CUDNN_STATUS_ALLOC_FAILED ? Code::out_of_memory : Code::device, "cudnn: ", cudnnGetErrorString(e), " (",
       at.file_name(), ":", at.line(), ")");
}

fe::DataType_t type_of(DType type) { return type == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT; }

std::shared_ptr<Graph> make_graph() {
  auto graph = std::make_shared<Graph>();
  graph->set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

TensorPtr input(Graph& graph, const char* name, int64_t uid, DType type, const Dims& dims, const Dims& strides) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(name)
                          .set_uid(uid)
                          .set_data_type(type_of(type))
                          .set_dim(dims)
                          .set_stride(strides));
}

void output(const TensorPtr& y, int64_t uid, fe::DataType_t type, const Dims& dims, const Dims& strides) {
  y->set_output(true).set_uid(uid).set_data_type(type).set_dim(dims).set_stride(strides);
}

enum Uid : int64_t { q_uid = 1, k_uid, v_uid, o_uid, lse_uid, queries_uid, keys_uid, x_uid, w_uid, bias_uid, y_uid };

}  // namespace

struct Dnn::Library {
  cudnnHandle_t handle = nullptr;
  explicit Library(cudaStream_t stream) {
    check(cudnnCreate(&handle));
    check(cudnnSetStream(handle, stream));
  }
  ~Library() { cudnnDestroy(handle); }
};

struct Dnn::Plan {
  std::shared_ptr<Graph> graph;
  int64_t index = -1;  // -1: nothing fits
  std::string name = {}, why = {};
  bool offered = false;

  // Everything up to the list of candidates.
  bool offer(cudnnHandle_t handle, const std::vector<fe::HeurMode_t>& modes) {
    const auto good = [&](fe::error_t e) {
      if (e.is_bad()) why = e.get_message();
      return e.is_good();
    };
    return good(graph->validate()) && good(graph->build_operation_graph(handle)) &&
           good(graph->create_execution_plans(modes)) && good(graph->check_support(handle));
  }

  // Of the candidates, in the library's order; empty where one has none.
  std::vector<std::string> names() const {
    std::vector<std::string> all(static_cast<size_t>(offered ? graph->get_execution_plan_count() : 0));
    for (size_t i = 0; i < all.size(); ++i)
      if (graph->get_plan_name_at_index(static_cast<int64_t>(i), all[i]).is_bad()) all[i].clear();
    return all;
  }

  // Takes candidate i, if it builds and fits into the workspace; `most` says how much of it.
  template <class Most>
  bool take(cudnnHandle_t handle, int64_t i, Most most) {
    std::string candidate;
    if (graph->get_plan_name_at_index(i, candidate).is_bad()) return false;
    fe::error_t built = graph->build_plan_at_index(handle, i);
    if (built.is_bad()) why = built.get_message();
    if (built.is_bad() || graph->get_workspace_size_plan_at_index(i) > most(candidate)) return false;
    index = i, name = candidate;
    return true;
  }

  void run(cudnnHandle_t handle, std::unordered_map<int64_t, void*> pointers, void* work) const {
    fe::error_t e = graph->execute_plan_at_index(handle, pointers, work, index);
    if (e.is_bad()) fail(Code::device, "cudnn: ", name, ": ", e.get_message());
  }
};

Dnn::Dnn(int capability, Tuning& tuning) : capability_(capability), tuning_(tuning) {}
Dnn::~Dnn() = default;

Dnn::Library& Dnn::library(cudaStream_t stream) {
  auto& one = libraries_[stream];
  if (!one) one = std::make_unique<Library>(stream);
  return *one;
}

std::vector<std::string> Dnn::plans() const {
  std::vector<std::string> lines;
  for (const auto& [key, plan] : plans_) lines.push_back(cat(key, ": ", plan->index < 0 ? "none" : plan->name));
  return lines;
}

// ---- attention --------------------------------------------------------------------------------------------------

namespace {

const void* start(const Heads& x) { return x.buf.data<bf16>() + x.at; }

std::string attention_key(const Heads& q, const Heads& k, const Heads& v, float scale) {
  return cat("attention ", q.tokens, 'x', k.tokens, ' ', q.heads, '/', k.heads, " heads of ", q.width, " rows ", q.row,
             ' ', k.row, ' ', v.row, " scale ", scale);
}

// [1, N, S, D], seen through the strides of a projection.
Dims dims_of(const Heads& x) { return {1, x.heads, x.tokens, x.width}; }
Dims strides_of(const Heads& x) { return {x.tokens * x.row, x.width, x.row, 1}; }

TensorPtr length(Graph& graph, const char* name, int64_t uid) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(name)
                          .set_uid(uid)
                          .set_dim({1, 1, 1, 1})
                          .set_stride({1, 1, 1, 1})
                          .set_data_type(fe::DataType_t::INT32));
}

}  // namespace

bool Dnn::attends(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options) {
  return (q.width == 64 || q.width == 128) && is_plain_bf16(q, k, v, options);
}

Dnn::Plan Dnn::build_attention(cudaStream_t stream, const Heads& q, const Heads& k, const Heads& v, float scale) {
  Plan plan{make_graph()};
  Graph& graph = *plan.graph;
  auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true).set_attn_scale(scale);
  options.set_padding_mask(true)
      .set_seq_len_q(length(graph, "queries", queries_uid))
      .set_seq_len_kv(length(graph, "keys", keys_uid));
  const auto [o, lse] = graph.sdpa(input(graph, "q", q_uid, DType::bf16, dims_of(q), strides_of(q)),
                                   input(graph, "k", k_uid, DType::bf16, dims_of(k), strides_of(k)),
                                   input(graph, "v", v_uid, DType::bf16, dims_of(v), strides_of(v)), options);
  const int64_t row = q.heads * q.width;
  output(o, o_uid, fe::DataType_t::BFLOAT16, dims_of(q), {q.tokens * row, q.width, row, 1});
  output(lse, lse_uid, fe::DataType_t::FLOAT, {1, q.heads, q.tokens, 1}, {q.heads * q.tokens, q.tokens, 1, 1});
  const cudnnHandle_t handle = library(stream).handle;
  // On Hopper engine 9 is the kernel whose bits and speed are known; another one must not stand in for it unnoticed.
  const bool hopper = capability_ == 90;
  plan.offered = plan.offer(handle, {fe::HeurMode_t::A});
  const std::vector<std::string> names = plan.names();
  for (size_t i = 0; i < names.size() && plan.index < 0; ++i)
    if (!hopper || names[i].starts_with("eng9"))
      plan.take(handle, static_cast<int64_t>(i), [](const std::string&) { return int64_t{workspace}; });
  if (plan.index < 0)
    fail(Code::unsupported, "attention: cuDNN ", cudnnGetVersion(), " offers no ", hopper ? "engine 9" : "plan",
         " for ", attention_key(q, k, v, scale), plan.why.empty() ? "" : ": ", plan.why);
  return plan;
}

void Dnn::attention(cudaStream_t stream, const Heads& q, const Heads& k, const Heads& v, float scale, int32_t* lengths,
                    const Partial& out, void* work) {
  auto& plan = plans_[attention_key(q, k, v, scale)];
  if (!plan) plan = std::make_unique<Plan>(build_attention(stream, q, k, v, scale));
  const auto of = [](const Heads& x) { return const_cast<void*>(start(x)); };
  plan->run(library(stream).handle,
            {{q_uid, of(q)},
             {k_uid, of(k)},
             {v_uid, of(v)},
             {o_uid, out.o.raw()},
             {lse_uid, out.lse.raw()},
             {queries_uid, lengths},
             {keys_uid, lengths + 1}},
            work);
}

// ---- convolution ------------------------------------------------------------------------------------------------

namespace {

std::string convolution_key(const Dnn::Convolution& c) {
  return cat("conv ", c.x.shape(), " by ", c.w.shape(), " to ", c.y.shape(), ' ', c.y.dtype(), " frame ", c.y_frame,
             " zeros ", c.rows, ' ', c.columns, " stride ", c.stride,
             c.bias.defined() ? cat(" bias ", c.bias.dtype()) : "");
}

}  // namespace

// Frames are a batch where the kernel spans one of them, a third axis where it spans more.
Dnn::Plan Dnn::offer_convolution(cudaStream_t stream, const Convolution& c) {
  Plan plan{make_graph()};
  Graph& graph = *plan.graph;
  const int64_t frames = c.x.dim(0), h = c.x.dim(1), w = c.x.dim(2), in = c.x.dim(3), out = c.w.dim(0);
  const int64_t kt = c.w.dim(1), kh = c.w.dim(2), kw = c.w.dim(3);
  const int64_t t = c.y.dim(0), rows = c.y.dim(1), columns = c.y.dim(2);
  const bool volume = kt > 1;
  const auto dims = [&](int64_t n, int64_t channels, int64_t depth, int64_t height, int64_t width) {
    return volume ? Dims{n, channels, depth, height, width} : Dims{n * depth, channels, height, width};
  };
  const auto strides = [&](int64_t n, int64_t channels, int64_t frame, int64_t width) {
    return volume ? Dims{n, 1, frame, width * channels, channels} : Dims{frame, 1, width * channels, channels};
  };
  const auto axes = [&](int64_t depth, int64_t height, int64_t width) {
    return volume ? Dims{depth, height, width} : Dims{height, width};
  };
  const auto x =
      input(graph, "x", x_uid, DType::bf16, dims(1, in, frames, h, w), strides(frames * h * w * in, in, h * w * in, w));
  const auto kernel =
      input(graph, "w", w_uid, DType::bf16, volume ? Dims{out, in, kt, kh, kw} : Dims{out, in, kh, kw},
            volume ? Dims{kt * kh * kw * in, 1, kh * kw * in, kw * in, in} : Dims{kh * kw * in, 1, kw * in, in});
  TensorPtr y = graph.conv_fprop(x, kernel,
                                 fe::graph::Conv_fprop_attributes()
                                     .set_name("conv")
                                     .set_padding(axes(0, c.rows, c.columns))
                                     .set_stride(axes(1, c.stride, c.stride))
                                     .set_dilation(axes(1, 1, 1)));
  const Dims y_dims = dims(1, out, t, rows, columns), y_strides = strides(t * c.y_frame, out, c.y_frame, columns);
  if (c.bias.defined()) {
    const auto bias =
        input(graph, "bias", bias_uid, c.bias.dtype(), volume ? Dims{1, out, 1, 1, 1} : Dims{1, out, 1, 1},
              volume ? Dims{out, 1, out, out, out} : Dims{out, 1, out, out});
    y->set_data_type(fe::DataType_t::FLOAT);  // not rounded in between
    y = graph.pointwise(y, bias,
                        fe::graph::Pointwise_attributes().set_name("plus_bias").set_mode(fe::PointwiseMode_t::ADD));
  }
  output(y, y_uid, type_of(c.y.dtype()), y_dims, y_strides);

  plan.offered = plan.offer(library(stream).handle, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  return plan;
}

namespace {

ConvolutionPlan as_plan(const Dnn::Convolution& c) {
  return {cat(c.x.dim(3), " to ", c.w.dim(0), " kernel ", c.w.dim(1), 'x', c.w.dim(2), 'x', c.w.dim(3), " stride ",
              c.stride, " zeros ", c.rows, ' ', c.columns, c.bias.defined() ? cat(" bias ", c.bias.dtype()) : "",
              " in ", c.x.dtype(), " to ", c.y.dtype()),
          c.x.dim(0),
          c.x.dim(1),
          c.x.dim(2),
          {},
          0,
          0};
}

int64_t most_workspace(const std::string& name) {
  return PlanChoice::most_workspace(name, static_cast<int64_t>(Dnn::workspace));
}

std::unordered_map<int64_t, void*> pointers_of(const Dnn::Convolution& c) {
  std::unordered_map<int64_t, void*> pointers{{x_uid, c.x.raw()}, {w_uid, c.w.raw()}, {y_uid, c.y.raw()}};
  if (c.bias.defined()) pointers[bias_uid] = c.bias.raw();
  return pointers;
}

// The frames of a result, which may lie apart.
std::vector<Tensor> frames_of(const Dnn::Convolution& c) {
  std::vector<Tensor> frames;
  const Shape one = c.y.shape().with(0, 1);
  for (int64_t t = 0; t < c.y.dim(0); ++t)
    frames.emplace_back(static_cast<std::byte*>(c.y.raw()) + t * c.y_frame * bytes_of(c.y.dtype()), one, c.y.dtype());
  return frames;
}

}  // namespace

Dnn::Plan Dnn::build_convolution(cudaStream_t stream, const Convolution& c) {
  Plan plan = offer_convolution(stream, c);
  const std::vector<std::string> offered = plan.names();
  const PlanChoice choice(as_plan(c), tuning_.table ? &*tuning_.table : nullptr);
  for (const std::string& tile : choice.tiles())
    for (const size_t i : choice.order(offered, tile)) {
      if (!plan.take(library(stream).handle, static_cast<int64_t>(i), most_workspace)) continue;
      if (const ConvolutionPlan* row = choice.missed(plan.name))
        tuning_.warnings.push_back(cat("tuning: convolution ", row->kind, ": cuDNN offers no plan \"", row->plan,
                                       "\" that keeps its bits here; left out"));
      return plan;
    }
  return plan;
}

// Times all plans of the first tile that has any, on the very operands.
Dnn::Plan Dnn::measure_convolution(cudaStream_t stream, const Convolution& c, void* work) {
  Plan plan = build_convolution(stream, c);
  if (plan.index < 0) return plan;
  const cudnnHandle_t handle = library(stream).handle;
  const std::vector<std::string> offered = plan.names();
  const std::string first = plan.name;
  std::vector<std::pair<int64_t, std::string>> candidates{{plan.index, first}};
  const PlanChoice choice(as_plan(c), nullptr);
  for (const std::string& tile : choice.tiles())
    if (first.find(tile) != std::string::npos)
      for (const size_t i : PlanChoice::competitors(offered, tile))
        if (offered[i] != first && plan.take(handle, static_cast<int64_t>(i), most_workspace))
          candidates.emplace_back(plan.index, plan.name);
  const auto run = [&](size_t i) {
    plan.index = candidates[i].first, plan.name = candidates[i].second;
    plan.run(handle, pointers_of(c), work);
  };
  const Fastest found = fastest(stream, candidates.size(), run, frames_of(c));
  plan.index = candidates[found.best].first, plan.name = candidates[found.best].second;
  ConvolutionPlan row = as_plan(c);
  row.plan = plan.name, row.us = found.us, row.first_us = found.first_us;
  tuning_.found.convolutions.push_back(row);
  return plan;
}

bool Dnn::convolve(cudaStream_t stream, const Convolution& c, void* work) {
  auto& plan = plans_[convolution_key(c)];
  if (!plan)
    plan =
        std::make_unique<Plan>(tuning_.measuring ? measure_convolution(stream, c, work) : build_convolution(stream, c));
  if (plan->index < 0) return false;
  plan->run(library(stream).handle, pointers_of(c), work);
  return true;
}

}  // namespace zoetrope::cuda
