#include "ops/cuda/products.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <iterator>
#include <source_location>

#include "base/error.h"
#include "ops/cuda/check.h"
#include "ops/cuda/handles.h"
#include "ops/cuda/measure.h"

namespace zoetrope::cuda {
namespace {

constexpr int64_t usual_rows = 1024;
constexpr size_t most_plans = 4096;

void check(cublasStatus_t e, std::source_location at = std::source_location::current()) {
  if (e == CUBLAS_STATUS_SUCCESS) return;
  fail(e == CUBLAS_STATUS_ALLOC_FAILED ? Code::out_of_memory : Code::device, "cublasLt: ", cublasLtGetStatusString(e),
       " (", at.file_name(), ":", at.line(), ")");
}

using Descriptor = std::unique_ptr<cublasLtMatmulDescOpaque_t, Calls<cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Calls<cublasLtMatrixLayoutDestroy>>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Calls<cublasLtMatmulPreferenceDestroy>>;

cudaDataType_t type_of(DType type) { return type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

cublasLtEpilogue_t code_of(Epilogue e) {
  constexpr std::array codes{CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU,
                             CUBLASLT_EPILOGUE_GELU_BIAS};
  return codes[static_cast<size_t>(e)];
}

bool has_bias(Epilogue e) { return e == Epilogue::bias || e == Epilogue::gelu_bias; }

const char* name(Epilogue e) {
  constexpr std::array names{"none", "bias", "gelu", "gelu_bias"};
  return names[static_cast<size_t>(e)];
}

// Of all rows: a slice of rows must not get another algorithm than the whole.
uint32_t alignment_of(const Tensor& x) {
  const auto all = reinterpret_cast<uintptr_t>(x.raw()) | static_cast<uintptr_t>(x.dim(-1) * bytes_of(x.dtype())) | 256;
  return static_cast<uint32_t>(all & (~all + 1));
}

}  // namespace

// A name of its own around the library's unnamed struct.
struct Products::Algorithm {
  cublasLtMatmulAlgo_t code;

  template <class T>
  T config(cublasLtMatmulAlgoConfigAttributes_t what) const {
    T value{};
    size_t written = 0;
    const bool there =
        cublasLtMatmulAlgoConfigGetAttribute(&code, what, &value, sizeof value, &written) == CUBLAS_STATUS_SUCCESS;
    return there ? value : T{};
  }

  int id() const { return config<int>(CUBLASLT_ALGO_CONFIG_ID); }
  bool keeps_order() const {
    return config<int32_t>(CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1 &&
           config<uint32_t>(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) == CUBLASLT_REDUCTION_SCHEME_NONE;
  }
  std::string text() const {
    return cat("algorithm ", id(), " tile ", config<uint32_t>(CUBLASLT_ALGO_CONFIG_TILE_ID), " stages ",
               config<uint32_t>(CUBLASLT_ALGO_CONFIG_STAGES_ID), " cluster ",
               config<uint16_t>(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID), " swizzle ",
               config<uint32_t>(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING), " option ",
               config<uint32_t>(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION), " split-K ",
               config<int32_t>(CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
  }
  // The library's documentation lets them be kept and given back to the same version.
  std::array<uint64_t, 8> words() const { return std::bit_cast<std::array<uint64_t, 8>>(code); }
  static Algorithm of(const std::array<uint64_t, 8>& words) { return {std::bit_cast<cublasLtMatmulAlgo_t>(words)}; }
};

struct Products::Key {
  int64_t m, n, k;
  DType in, out;
  Epilogue epilogue;
  uint32_t x_align, w_align, y_align;
  int64_t rows = 0;  // that the algorithm is asked for; 0: find() decides
  Right right = Right::transposed;
  int64_t x_row = k, w_row = k, y_row = n;
  auto operator<=>(const Key&) const = default;

  bool per_rows() const;  // whether it may take another algorithm of the same kind for each m
  ProductPlan as_plan() const {
    return {m, n, k, in, out, name(epilogue), std::min({x_align, w_align, y_align}), {}, {}, 0, 0};
  }
};

struct Products::Library {
  cublasLtHandle_t handle = nullptr;
  Library() { check(cublasLtCreate(&handle)); }
  ~Library() { cublasLtDestroy(handle); }
};

// The library stores columns: it sees y^T[N, M] = w[N, K] x^T[K, M], with w transposed unless it is [K, N].
struct Products::Plan {
  Descriptor operation;
  Layout w, x, y;
  Algorithm algorithm;

  Plan(const Key& key, int64_t rows) {
    cublasLtMatmulDesc_t made = nullptr;
    check(cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    operation.reset(made);
    const bool transposed = key.right == Right::transposed;
    set(CUBLASLT_MATMUL_DESC_TRANSA, transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, code_of(key.epilogue));
    if (has_bias(key.epilogue)) set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(key.out));
    w = transposed ? layout(key.in, key.k, key.n, key.w_row) : layout(key.in, key.n, key.k, key.w_row);
    x = layout(key.in, key.k, rows, key.x_row), y = layout(key.out, key.n, rows, key.y_row);
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t what, T value) {
    check(cublasLtMatmulDescSetAttribute(operation.get(), what, &value, sizeof value));
  }

  static Layout layout(DType type, int64_t rows, int64_t columns, int64_t distance) {
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, type_of(type), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                     distance));
    return Layout(made);
  }

  // What the library offers, best first, without those that may change the order of a sum.
  std::vector<Algorithm> offers(const Library& library, const Key& key) const {
    cublasLtMatmulPreference_t made = nullptr;
    check(cublasLtMatmulPreferenceCreate(&made));
    const Preference preference(made);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(made, what, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.w_align);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.x_align);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.y_align);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.y_align);
    std::array<cublasLtMatmulHeuristicResult_t, 16> found{};
    int count = 0;
    const cublasStatus_t e =
        cublasLtMatmulAlgoGetHeuristic(library.handle, operation.get(), w.get(), x.get(), y.get(), y.get(), made,
                                       static_cast<int>(found.size()), found.data(), &count);
    std::vector<Algorithm> kept;
    for (int i = 0; e == CUBLAS_STATUS_SUCCESS && i < count; ++i) {
      const auto& one = found[static_cast<size_t>(i)];
      const Algorithm algorithm{one.algo};
      if (one.state == CUBLAS_STATUS_SUCCESS && algorithm.keeps_order()) kept.push_back(algorithm);
    }
    return kept;
  }

  bool takes(const Library& library, const Algorithm& one) const {
    cublasLtMatmulHeuristicResult_t result{};
    return cublasLtMatmulAlgoCheck(library.handle, operation.get(), w.get(), x.get(), y.get(), y.get(), &one.code,
                                   &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= workspace;
  }
};

Products::Products(Tuning& tuning) : tuning_(tuning), library_(std::make_unique<Library>()) {}
Products::~Products() = default;

bool Products::Key::per_rows() const { return in == DType::bf16 && m >= usual_rows; }

// What the table has for it, if it is one of those that give the bits of `usual`.
std::vector<Products::Algorithm> Products::tuned(const Key& key, const Plan& plan, const Algorithm& usual) {
  const ProductPlan* found = tuning_.table && key.per_rows() ? tuning_.table->find(key.as_plan()) : nullptr;
  if (!found) return {};
  const Algorithm one = Algorithm::of(found->code);
  if (one.text() == found->plan && one.keeps_order() && one.id() == usual.id() && plan.takes(*library_, one))
    return {one};
  tuning_.warnings.push_back(cat("tuning: product ", found->n, "x", found->k, ": \"", found->plan,
                                 "\" is no algorithm that cuBLASLt takes here and that keeps its bits; left out"));
  return {};
}

// In order of preference; those that may take another algorithm for each m get the same bits from each of these.
std::vector<Products::Algorithm> Products::choices(const Key& key, const Plan& plan) {
  const std::vector<Algorithm> usual = Plan(key, usual_rows).offers(*library_, key);
  std::vector<Algorithm> fit;
  if (key.per_rows() && !usual.empty()) {
    fit = tuned(key, plan, usual[0]);
    for (const Algorithm& one : plan.offers(*library_, key))
      if (one.id() == usual[0].id() && plan.takes(*library_, one)) fit.push_back(one);
  }
  for (const Algorithm& one : usual)
    if (plan.takes(*library_, one)) fit.push_back(one);
  if (fit.empty())
    fail(Code::unsupported, "linear: cuBLASLt offers no algorithm for ", key.m, "x", key.k, " times ", key.k, "x",
         key.n, " in ", key.in, " to ", key.out, " with a whole sum over K (", usual.size(), " offers)");
  return fit;
}

Products::Plan& Products::find(const Key& key) {
  if (const auto found = plans_.find(key); found != plans_.end()) return *found->second;
  if (plans_.size() >= most_plans) plans_.clear();
  auto plan = std::make_unique<Plan>(key, key.m);
  plan->algorithm = choices(key, *plan).front();
  return *plans_.emplace(key, std::move(plan)).first->second;
}

// Offers are those of the dense operands: a rank that gathered its keys reads other strides than one that has them all.
Products::Plan& Products::find_strided(const Key& key) {
  if (const auto found = plans_.find(key); found != plans_.end()) return *found->second;
  if (plans_.size() >= most_plans) plans_.clear();
  auto plan = std::make_unique<Plan>(key, key.m);
  Key dense = key;
  const auto eights = [](int64_t n) { return (n + 7) / 8 * 8; };
  dense.x_row = eights(key.k), dense.y_row = eights(key.n);
  dense.w_row = eights(key.right == Right::transposed ? key.k : key.n);
  const std::vector<Algorithm> offers = Plan(dense, key.rows).offers(*library_, dense);
  const auto chosen = std::ranges::find_if(offers, [&](const Algorithm& one) { return plan->takes(*library_, one); });
  if (chosen == offers.end())
    fail(Code::unsupported, "attention: cuBLASLt offers no algorithm for ", key.m, "x", key.k, " times ", key.k, "x",
         key.n, " in ", key.in, " to ", key.out, " with a whole sum over K (", offers.size(), " offers)");
  plan->algorithm = *chosen;
  return *plans_.emplace(key, std::move(plan)).first->second;
}

void Products::run(cudaStream_t stream, const Matrix& x, const Matrix& w, Right right, const Matrix& y, int64_t rows,
                   void* work) {
  const Plan& plan = find_strided({.m = x.rows,
                                   .n = y.columns,
                                   .k = x.columns,
                                   .in = x.type,
                                   .out = y.type,
                                   .epilogue = Epilogue::none,
                                   .x_align = 16,
                                   .w_align = 16,
                                   .y_align = 16,
                                   .rows = rows,
                                   .right = right,
                                   .x_row = x.row,
                                   .w_row = w.row,
                                   .y_row = y.row});
  const float alpha = 1, beta = 0;
  void* to = const_cast<void*>(y.data);
  check(cublasLtMatmul(library_->handle, plan.operation.get(), &alpha, w.data, plan.w.get(), x.data, plan.x.get(),
                       &beta, to, plan.y.get(), to, plan.y.get(), &plan.algorithm.code, work, workspace, stream));
}

void Products::launch(cudaStream_t stream, Plan& plan, const Tensor& x, const Tensor& w, const Tensor& bias,
                      const Tensor& y, void* work) {
  if (bias.defined()) plan.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.raw()));
  const float alpha = 1, beta = 0;
  check(cublasLtMatmul(library_->handle, plan.operation.get(), &alpha, w.raw(), plan.w.get(), x.raw(), plan.x.get(),
                       &beta, y.raw(), plan.y.get(), y.raw(), plan.y.get(), &plan.algorithm.code, work, workspace,
                       stream));
}

// Times what the library offers for this and for other numbers of rows, on the very operands.
void Products::measure(const Key& key, cudaStream_t stream, const Tensor& x, const Tensor& w, const Tensor& bias,
                       const Tensor& y, void* work) {
  auto plan = std::make_unique<Plan>(key, key.m);
  std::vector<Algorithm> candidates = choices(key, *plan);
  const auto add = [&](const Algorithm& one) {
    const bool there = std::ranges::any_of(candidates, [&](const Algorithm& c) { return c.words() == one.words(); });
    if (!there && one.id() == candidates[0].id() && plan->takes(*library_, one)) candidates.push_back(one);
  };
  for (const int64_t rows : {key.m / 2, 2 * key.m, int64_t{4096}, int64_t{18900}, int64_t{75600}})
    for (const Algorithm& one : Plan(key, rows).offers(*library_, key)) add(one);
  const Fastest found =
      fastest(stream, candidates.size(),
              [&](size_t i) { plan->algorithm = candidates[i], launch(stream, *plan, x, w, bias, y, work); }, {y});
  plan->algorithm = candidates[found.best];
  ProductPlan row = key.as_plan();
  row.code = plan->algorithm.words(), row.plan = plan->algorithm.text();
  row.us = found.us, row.first_us = found.first_us;
  tuning_.found.products.push_back(row);
  plans_[key] = std::move(plan);
}

void Products::run(cudaStream_t stream, const Tensor& x, const Tensor& w, Epilogue epilogue, const Tensor& bias,
                   const Tensor& y, void* work) {
  if (y.size() == 0) return;
  if (x.dim(1) == 0) return cuda::check(cudaMemsetAsync(y.raw(), 0, static_cast<size_t>(y.bytes()), stream));
  const Key key{x.dim(0), w.dim(0),        x.dim(1),        x.dtype(),      y.dtype(),
                epilogue, alignment_of(x), alignment_of(w), alignment_of(y)};
  const Tensor added = has_bias(epilogue) ? bias : Tensor{};
  if (tuning_.measuring && key.per_rows() && !plans_.contains(key)) measure(key, stream, x, w, added, y, work);
  launch(stream, find(key), x, w, added, y, work);
}

std::vector<std::string> Products::plans() const {
  std::vector<std::string> lines;
  for (const auto& [key, plan] : plans_)
    lines.push_back(cat(key.rows ? "attention " : "linear ", key.m, "x", key.k, " to ", key.n, " ", key.in, " to ",
                        key.out, ": ", plan->algorithm.text()));
  return lines;
}

}  // namespace zoetrope::cuda
