// One cuBLASLt product, row major: D[M,N] = epilogue(A[M,K] W[N,K]^T). cuBLAS sees it transposed: m = N, n = M.
#pragma once
#include <cublasLt.h>

#include "probe.h"
#define CB(x)                                                                             \
  do {                                                                                    \
    cublasStatus_t e_ = (x);                                                              \
    if (e_ != CUBLAS_STATUS_SUCCESS) {                                                    \
      printf("FAIL %s:%d %s: %s\n", __FILE__, __LINE__, #x, cublasLtGetStatusString(e_)); \
      fflush(stdout);                                                                     \
      _exit(3);                                                                           \
    }                                                                                     \
  } while (0)
constexpr size_t kGemmWs = 64ull << 20;

// nvcc 13.0 in C++20 mode dies on containers of cuBLASLt's unnamed structs; a named one around them is fine.
struct Algo {
  cublasLtMatmulAlgo_t a;
  cublasStatus_t state;
};
struct Gemm {
  cublasLtMatmulDesc_t op;
  cublasLtMatrixLayout_t a, b, c;
  int64_t M, N, K;
  cudaDataType_t td;
  float alpha = 1, beta = 0;
  const float* alpha_vec = nullptr;
  Gemm(int64_t M_, int64_t N_, int64_t K_, cudaDataType_t out_type = CUDA_R_16BF,
       cublasLtEpilogue_t ep = CUBLASLT_EPILOGUE_DEFAULT, const void* bias = nullptr,
       cudaDataType_t bias_type = CUDA_R_16BF)
      : M(M_), N(N_), K(K_), td(out_type) {
    CB(cublasLtMatmulDescCreate(&op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    cublasOperation_t t = CUBLAS_OP_T;
    CB(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t));
    CB(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_EPILOGUE, &ep, sizeof ep));
    if (bias) {
      CB(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
      CB(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type));
    }
    CB(cublasLtMatrixLayoutCreate(&a, CUDA_R_16BF, K, N, K));
    CB(cublasLtMatrixLayoutCreate(&b, CUDA_R_16BF, K, M, K));
    CB(cublasLtMatrixLayoutCreate(&c, td, N, M, N));
  }
  void use_alpha_vector(const float* v, bool beta_zero) {
    cublasLtPointerMode_t m = beta_zero ? CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO
                                        : CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST;
    CB(cublasLtMatmulDescSetAttribute(op, CUBLASLT_MATMUL_DESC_POINTER_MODE, &m, sizeof m));
    alpha_vec = v;
  }
  std::vector<Algo> algos(cublasLtHandle_t h, int want,
                          uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK) const {
    cublasLtMatmulPreference_t p;
    CB(cublasLtMatmulPreferenceCreate(&p));
    CB(cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kGemmWs, sizeof kGemmWs));
    CB(cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction_mask,
                                            sizeof reduction_mask));
    cublasLtMatmulHeuristicResult_t r[32];
    want = std::min(want, 32);
    int got = 0;
    cublasStatus_t s = cublasLtMatmulAlgoGetHeuristic(h, op, a, b, c, c, p, want, r, &got);
    cublasLtMatmulPreferenceDestroy(p);
    if (s != CUBLAS_STATUS_SUCCESS) got = 0;
    std::vector<Algo> v;
    for (int i = 0; i < got; ++i) v.push_back({r[i].algo, r[i].state});
    return v;
  }
  cublasStatus_t run(cublasLtHandle_t h, const bf16* A, const bf16* W, void* D, const cublasLtMatmulAlgo_t* algo,
                     void* ws, cudaStream_t s) const {
    return cublasLtMatmul(h, op, alpha_vec ? (const void*)alpha_vec : &alpha, W, a, A, b, &beta, D, c, D, c, algo, ws,
                          kGemmWs, s);
  }
  // whether the algorithm takes this shape at all
  bool takes(cublasLtHandle_t h, const cublasLtMatmulAlgo_t& algo) const {
    cublasLtMatmulHeuristicResult_t r;
    return cublasLtMatmulAlgoCheck(h, op, a, b, c, c, &algo, &r) == CUBLAS_STATUS_SUCCESS && r.workspaceSize <= kGemmWs;
  }
  ~Gemm() {
    cublasLtMatrixLayoutDestroy(a), cublasLtMatrixLayoutDestroy(b), cublasLtMatrixLayoutDestroy(c),
        cublasLtMatmulDescDestroy(op);
  }
};
template <class T>
T algo_get(const cublasLtMatmulAlgo_t& a, cublasLtMatmulAlgoConfigAttributes_t k) {
  T v{};
  size_t n;
  cublasLtMatmulAlgoConfigGetAttribute(&a, k, &v, sizeof v, &n);
  return v;
}
inline std::string describe(const cublasLtMatmulAlgo_t& a) {
  char b[160];
  snprintf(b, sizeof b, "id%d tile%u st%u splitk%d red%u swz%u cust%u cluster%u",
           algo_get<int>(a, CUBLASLT_ALGO_CONFIG_ID), algo_get<uint32_t>(a, CUBLASLT_ALGO_CONFIG_TILE_ID),
           algo_get<uint32_t>(a, CUBLASLT_ALGO_CONFIG_STAGES_ID), algo_get<int32_t>(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
           algo_get<uint32_t>(a, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
           algo_get<uint32_t>(a, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
           algo_get<uint32_t>(a, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
           (unsigned)algo_get<uint16_t>(a, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
  return b;
}
