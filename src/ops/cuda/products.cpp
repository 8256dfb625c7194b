#include "ops/cuda/products.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <source_location>

#include "base/error.h"
#include "ops/cuda/check.h"
#include "ops/cuda/handles.h"

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

// A name of its own around the library's unnamed struct.
struct Algorithm {
  cublasLtMatmulAlgo_t code;
};

cudaDataType_t type_of(DType type) { return type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

template <class T>
T config_of(const Algorithm& a, cublasLtMatmulAlgoConfigAttributes_t what) {
  T value{};
  size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&a.code, what, &value, sizeof value, &written));
  return value;
}

std::string describe(const Algorithm& a) {
  return cat("algorithm ", config_of<int>(a, CUBLASLT_ALGO_CONFIG_ID), " tile ",
             config_of<uint32_t>(a, CUBLASLT_ALGO_CONFIG_TILE_ID), " stages ",
             config_of<uint32_t>(a, CUBLASLT_ALGO_CONFIG_STAGES_ID), " split-K ",
             config_of<int32_t>(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

bool keeps_order(const Algorithm& a) {
  return config_of<int32_t>(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1 &&
         config_of<uint32_t>(a, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) == CUBLASLT_REDUCTION_SCHEME_NONE;
}

cublasLtEpilogue_t code_of(Epilogue e) {
  constexpr std::array codes{CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU,
                             CUBLASLT_EPILOGUE_GELU_BIAS};
  return codes[static_cast<size_t>(e)];
}

bool has_bias(Epilogue e) { return e == Epilogue::bias || e == Epilogue::gelu_bias; }

// Of all rows: a slice of rows must not get another algorithm than the whole.
uint32_t alignment_of(const Tensor& x) {
  const auto all = reinterpret_cast<uintptr_t>(x.raw()) | static_cast<uintptr_t>(x.dim(-1) * bytes_of(x.dtype())) | 256;
  return static_cast<uint32_t>(all & (~all + 1));
}

}  // namespace

struct Products::Key {
  int64_t m, n, k;
  DType in, out;
  Epilogue epilogue;
  uint32_t x_align, w_align, y_align;
  int64_t rows = 0;  // that the algorithm is asked for; 0: find() decides
  Right right = Right::transposed;
  int64_t x_row = k, w_row = k, y_row = n;
  auto operator<=>(const Key&) const = default;
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
      if (one.state == CUBLAS_STATUS_SUCCESS && keeps_order(algorithm)) kept.push_back(algorithm);
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

Products::Products() : library_(std::make_unique<Library>()) {}
Products::~Products() = default;

Products::Plan& Products::find(const Key& key) {
  if (const auto found = plans_.find(key); found != plans_.end()) return *found->second;
  if (plans_.size() >= most_plans) plans_.clear();
  auto plan = std::make_unique<Plan>(key, key.m);
  const std::vector<Algorithm> usual = Plan(key, usual_rows).offers(*library_, key);
  std::vector<Algorithm> choices;
  if (key.in == DType::bf16 && key.m >= usual_rows && !usual.empty())
    for (const Algorithm& one : plan->offers(*library_, key))
      if (config_of<int>(one, CUBLASLT_ALGO_CONFIG_ID) == config_of<int>(usual[0], CUBLASLT_ALGO_CONFIG_ID))
        choices.push_back(one);
  choices.insert(choices.end(), usual.begin(), usual.end());
  const auto chosen = std::ranges::find_if(choices, [&](const Algorithm& one) { return plan->takes(*library_, one); });
  if (chosen == choices.end())
    fail(Code::unsupported, "linear: cuBLASLt offers no algorithm for ", key.m, "x", key.k, " times ", key.k, "x",
         key.n, " in ", key.in, " to ", key.out, " with a whole sum over K (", usual.size(), " offers)");
  plan->algorithm = *chosen;
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

void Products::run(cudaStream_t stream, const Tensor& x, const Tensor& w, Epilogue epilogue, const Tensor& bias,
                   const Tensor& y, void* work) {
  if (y.size() == 0) return;
  if (x.dim(1) == 0) return cuda::check(cudaMemsetAsync(y.raw(), 0, static_cast<size_t>(y.bytes()), stream));
  Plan& plan = find({x.dim(0), w.dim(0), x.dim(1), x.dtype(), y.dtype(), epilogue, alignment_of(x), alignment_of(w),
                     alignment_of(y)});
  if (has_bias(epilogue)) plan.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.raw()));
  const float alpha = 1, beta = 0;
  check(cublasLtMatmul(library_->handle, plan.operation.get(), &alpha, w.raw(), plan.w.get(), x.raw(), plan.x.get(),
                       &beta, y.raw(), plan.y.get(), y.raw(), plan.y.get(), &plan.algorithm.code, work, workspace,
                       stream));
}

std::vector<std::string> Products::plans() const {
  std::vector<std::string> lines;
  for (const auto& [key, plan] : plans_)
    lines.push_back(cat(key.rows ? "attention " : "linear ", key.m, "x", key.k, " to ", key.n, " ", key.in, " to ",
                        key.out, ": ", describe(plan->algorithm)));
  return lines;
}

}  // namespace zoetrope::cuda
