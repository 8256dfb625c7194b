// The softmax between the two products of a wide attention, and what follows them. A block owns a row; a thread adds
// every threads-th group of four in ascending order, so a row's bits depend on the row alone.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

constexpr int threads = 512;

// Folded by halves within a warp, then over the warps in order; in all threads.
template <class F>
__device__ inline float block_fold(float x, F fold) {
  __shared__ float parts[threads / 32];
  for (int step = 16; step > 0; step /= 2) x = fold(x, __shfl_xor_sync(0xFFFFFFFFu, x, step));
  __syncthreads();  // an earlier fold was read by all
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (int i = 1; i < threads / 32; ++i) x = fold(x, parts[i]);
  return x;
}

__device__ inline void load4(const float* row, int64_t i, int64_t n, float* v) {
  if (i + 4 <= n) {
    const float4 a = *reinterpret_cast<const float4*>(row + i);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    return;
  }
  for (int j = 0; j < 4; ++j) v[j] = i + j < n ? row[i + j] : -INFINITY;
}

// logits [rows, n] fp32, `row` elements apart -> weights exp(scale logit - top) in bf16, as far apart; of each row the
// inverse of its sum before rounding, and its lse.
__global__ void __launch_bounds__(threads) softmax_kernel(const float* logits, int64_t n, int64_t row, float scale,
                                                          bf16* weights, float* inverse, float* lse) {
  const float* from = logits + blockIdx.x * row;
  bf16* to = weights + blockIdx.x * row;
  float v[4], top = -INFINITY, total = 0;
  for (int64_t i = 4 * threadIdx.x; i < n; i += 4 * threads) {
    load4(from, i, n, v);
    for (int j = 0; j < 4; ++j)
      if (i + j < n) top = fmaxf(top, v[j] * scale);
  }
  top = block_fold(top, [](float a, float b) { return fmaxf(a, b); });
  for (int64_t i = 4 * threadIdx.x; i < n; i += 4 * threads) {
    load4(from, i, n, v);
    for (int j = 0; j < 4; ++j) {
      const float logit = v[j] * scale;
      // Nothing but -inf: no weight, except that a NaN has to come through.
      v[j] = i + j >= n ? 0.0f : top == -INFINITY ? (logit != logit ? logit : 0.0f) : expf(logit - top);
      total += v[j];
    }
    if (i + 4 <= n)
      *reinterpret_cast<uint2*>(to + i) = make_uint2(narrow_pair(v[0], v[1]), narrow_pair(v[2], v[3]));
    else
      for (int j = 0; i + j < n; ++j) narrow(to[i + j], v[j]);
  }
  total = block_fold(total, [](float a, float b) { return a + b; });
  if (threadIdx.x > 0) return;
  inverse[blockIdx.x] = total == 0 ? 0.0f : 1 / total;
  lse[blockIdx.x] = total == 0 ? -INFINITY : top + logf(total);
}

// y[r, d] = sums[r, d] inverse[r], rounded; rows of y are `row` elements apart.
__global__ void __launch_bounds__(threads)
    scale_rows_kernel(const float* sums, const float* inverse, int64_t width, int64_t size, bf16* y, int64_t row) {
  const int64_t i = 8 * (static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x);
  if (i >= size) return;
  float v[8];
  load_vector(sums + i, v);
  const float factor = inverse[i / width];
  for (int j = 0; j < 8; ++j) v[j] = v[j] * factor;
  store_vector(y + i / width * row + i % width, v);
}

}  // namespace

void softmax(cudaStream_t s, const float* logits, int64_t rows, int64_t n, int64_t row, float scale, bf16* weights,
             float* inverse, float* lse) {
  launch(softmax_kernel, blocks(rows, 1), dim3(threads), s, logits, n, row, scale, weights, inverse, lse);
}

void scale_rows(cudaStream_t s, const float* sums, const float* inverse, int64_t rows, int64_t width, bf16* y,
                int64_t row) {
  launch(scale_rows_kernel, blocks(rows * width, 8 * threads), dim3(threads), s, sums, inverse, width, rows * width, y,
         row);
}

}  // namespace zoetrope::cuda
