// The solver's step, alone or behind guidance: one pass over the state, the three lines of ops.h from left to right.
// Eight elements a thread.
#include <cfloat>

#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

constexpr int threads = 256;

template <class X>
struct Step {
  float *x, *last, *m1, *m2;
  const X *cond, *uncond;  // uncond null: no guidance
  const float *scale, *k;
  float* bad;  // null: nobody counts

  bool vector() const {
    return aligned(x) && aligned(last) && aligned(m1) && aligned(m2) && aligned(cond) && aligned(uncond);
  }
};

// v of elements [i, i + 8) of n, rounded to X; returns how many are not finite.
template <bool guided, class X>
__device__ inline int guide8(const Step<X>& s, int64_t i, int64_t n, const float* base, float* v) {
  int bad = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (guided) v[j] = rounded(base[j] + *s.scale * (v[j] - base[j]), X{});
    bad += i + j < n && !(fabsf(v[j]) <= FLT_MAX);
  }
  return bad;
}

template <bool guided, class X>
__device__ inline void step8(const Step<X>& s, int64_t i, int64_t n, bool vector) {
  float v[8], base[8], x[8], last[8], m1[8], m2[8];
  load8(s.cond, i, n, vector, v);
  if (guided) load8(s.uncond, i, n, vector, base);
  load8(static_cast<const float*>(s.x), i, n, vector, x);
  load8(static_cast<const float*>(s.last), i, n, vector, last);
  load8(static_cast<const float*>(s.m1), i, n, vector, m1);
  load8(static_cast<const float*>(s.m2), i, n, vector, m2);
  float k[9];
#pragma unroll
  for (int j = 0; j < 9; ++j) k[j] = s.k[j];
  const int bad = guide8<guided>(s, i, n, base, v);
  if (bad > 0 && s.bad) atomicAdd(s.bad, static_cast<float>(bad));
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float m = x[j] - k[0] * v[j];
    const float y = k[1] * x[j] + k[2] * last[j] + k[3] * m1[j] + k[4] * m2[j] + k[5] * m;
    x[j] = k[6] * y + k[7] * m + k[8] * m1[j];
    last[j] = y, m2[j] = m1[j], m1[j] = m;
  }
  store8(s.x, i, n, vector, x);
  store8(s.last, i, n, vector, last);
  store8(s.m1, i, n, vector, m1);
  store8(s.m2, i, n, vector, m2);
}

// Whole eights of aligned tensors take their own way, in which no load waits for a branch.
template <bool guided, class X>
__global__ void __launch_bounds__(threads) step_kernel(Step<X> s, int64_t n, bool vector) {
  const int64_t i = 8 * (static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x);
  if (i >= n) return;
  if (vector && i + 8 <= n)
    step8<guided>(s, i, i + 8, true);
  else
    step8<guided>(s, i, n, false);
}

template <class X>
void start(cudaStream_t stream, const Step<X>& s, int64_t n) {
  launch(s.uncond ? step_kernel<true, X> : step_kernel<false, X>, blocks(n, 8 * threads), dim3(threads), stream, s, n,
         s.vector());
}

}  // namespace

void multistep(cudaStream_t s, const Tensor& x, const Tensor& last, const Tensor& m1, const Tensor& m2, const Tensor& v,
               const Tensor& k) {
  guided_multistep(s, x, last, m1, m2, v, {}, {}, k, {});
}

void guided_multistep(cudaStream_t s, const Tensor& x, const Tensor& last, const Tensor& m1, const Tensor& m2,
                      const Tensor& cond, const Tensor& uncond, const Tensor& scale, const Tensor& k,
                      const Tensor& bad) {
  with_type(cond.dtype(), [&]<class X>(X) {
    start<X>(s,
             {pointer<float>(x), pointer<float>(last), pointer<float>(m1), pointer<float>(m2), pointer<const X>(cond),
              pointer<const X>(uncond), pointer<const float>(scale), pointer<const float>(k), pointer<float>(bad)},
             cond.size());
  });
}

}  // namespace zoetrope::cuda
