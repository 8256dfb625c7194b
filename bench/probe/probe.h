// Shared by the throw-away probes: checks, random fills, comparisons, timing. Not part of the project's build.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

using bf16 = __nv_bfloat16;
#define CK(x)                                                                        \
  do {                                                                               \
    cudaError_t e_ = (x);                                                            \
    if (e_ != cudaSuccess) {                                                         \
      printf("FAIL %s:%d %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e_)); \
      fflush(stdout);                                                                \
      _exit(3);                                                                      \
    }                                                                                \
  } while (0)
#define CU(x)                                                    \
  do {                                                           \
    CUresult e_ = (x);                                           \
    if (e_ != CUDA_SUCCESS) {                                    \
      const char* s_ = "?";                                      \
      cuGetErrorString(e_, &s_);                                 \
      printf("FAIL %s:%d %s: %s\n", __FILE__, __LINE__, #x, s_); \
      fflush(stdout);                                            \
      _exit(3);                                                  \
    }                                                            \
  } while (0)

inline void out(const char* f, ...) {
  va_list a;
  va_start(a, f);
  vprintf(f, a);
  va_end(a);
  fflush(stdout);
}

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

#ifdef __CUDACC__
__device__ inline uint32_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return (uint32_t)x;
}
// Sum of four uniforms, shifted: near normal, unit variance, no transcendental.
__device__ inline float rnd(uint64_t i, uint64_t seed) {
  float s = 0;
  for (int k = 0; k < 4; ++k) s += (mix(i * 4 + k + seed * 0x9E3779B97F4A7C15ULL) >> 8) * (1.0f / 16777216.0f);
  return (s - 2.0f) * 1.7320508f;
}
template <class T>
__global__ void fill_k(T* p, size_t n, uint64_t seed, float scale, float shift) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    p[i] = (T)(rnd(i, seed) * scale + shift);
}
template <class T>
inline void fill(T* p, size_t n, uint64_t seed, float scale = 1.0f, float shift = 0.0f) {
  fill_k<<<1056, 256>>>(p, n, seed, scale, shift);
  CK(cudaGetLastError());
}
// acc: [0] sum of squares of difference, [1] of reference; mx: max |difference| as bits; ne: elements whose bits differ
struct Diff {
  double d2, r2;
  unsigned int mx;
  unsigned long long ne, nan;
};
template <class A, class B>
__global__ void diff_k(const A* a, const B* b, size_t rows, size_t cols, size_t lda, size_t ldb, Diff* o) {
  double d2 = 0, r2 = 0;
  float mx = 0;
  unsigned long long ne = 0, nan = 0;
  size_t n = rows * cols;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    size_t r = i / cols, c = i % cols;
    float x = (float)a[r * lda + c], y = (float)b[r * ldb + c];
    if (isnan(x) || isnan(y)) {
      ++nan;
      continue;
    }
    float d = fabsf(x - y);
    ne += x != y;
    d2 += (double)d * d;
    r2 += (double)y * y;
    mx = fmaxf(mx, d);
  }
  atomicAdd(&o->d2, d2);
  atomicAdd(&o->r2, r2);
  atomicMax(&o->mx, __float_as_uint(mx));
  atomicAdd(&o->ne, ne);
  atomicAdd(&o->nan, nan);
}
struct Cmp {
  double rel;
  float mx;
  unsigned long long ne, nan;
};
template <class A, class B>
inline Cmp compare(const A* a, const B* b, size_t rows, size_t cols, size_t lda = 0, size_t ldb = 0) {
  Diff *d, hd;
  CK(cudaDeviceSynchronize());
  CK(cudaMalloc(&d, sizeof(Diff)));
  CK(cudaMemset(d, 0, sizeof(Diff)));
  diff_k<<<528, 256>>>(a, b, rows, cols, lda ? lda : cols, ldb ? ldb : cols, d);
  CK(cudaGetLastError());
  CK(cudaMemcpy(&hd, d, sizeof(Diff), cudaMemcpyDeviceToHost));
  CK(cudaFree(d));
  Cmp c;
  c.rel = std::sqrt(hd.d2 / (hd.r2 > 0 ? hd.r2 : 1));
  memcpy(&c.mx, &hd.mx, 4);
  c.ne = hd.ne;
  c.nan = hd.nan;
  return c;
}
#endif
template <class T>
inline T* dmalloc(size_t n) {
  T* p;
  CK(cudaMalloc(&p, n * sizeof(T)));
  CK(cudaMemset(p, 0xff, n * sizeof(T)));  // NaN in every float type: what nobody wrote shows
  return p;
}
struct Times {
  float med, lo, hi;
};
inline Times timeit(cudaStream_t s, int warm, int reps, const std::function<void()>& f) {
  cudaEvent_t a, b;
  CK(cudaEventCreate(&a));
  CK(cudaEventCreate(&b));
  for (int i = 0; i < warm; ++i) f();
  std::vector<float> t;
  for (int i = 0; i < reps; ++i) {
    CK(cudaEventRecord(a, s));
    f();
    CK(cudaEventRecord(b, s));
    CK(cudaEventSynchronize(b));
    float ms;
    CK(cudaEventElapsedTime(&ms, a, b));
    t.push_back(ms);
  }
  CK(cudaGetLastError());
  CK(cudaEventDestroy(a));
  CK(cudaEventDestroy(b));
  std::sort(t.begin(), t.end());
  return {t[t.size() / 2], t.front(), t.back()};
}
