// Kernels over the rows [..., C] of a tensor. A row belongs to `lanes` threads, 16 elements each: a part of a warp for
// short rows, a whole block for long ones. Both depend on C alone, and so does the order of a row's sum: a thread adds
// its elements in ascending order, the threads of a warp are folded by halves, then the warps are added in order. A
// row's bits depend on the row alone.
#pragma once
#include "ops/cuda/device.cuh"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {

constexpr int chunks = 2;  // of eight elements, in a thread

struct RowShape {
  int64_t rows, n;
  int64_t inner = 1, from_stride, to_stride;  // row r begins at (r / inner) stride + (r % inner) n
  int lanes, block;                           // threads of a row, of a block

  RowShape(int64_t rows_, int64_t n_) : rows(rows_), n(n_), from_stride(n_), to_stride(n_) {
    const int64_t want = (n + 15) / 16;
    lanes = 1;
    while (lanes < want && lanes < 32) lanes *= 2;
    if (want > 32) lanes = static_cast<int>((want + 31) / 32 * 32);  // up to 1024: most_channels
    block = lanes > 32 ? lanes : 128;
  }
  int rows_a_block() const { return block / lanes; }
};

// One thread's share of a row: chunk c holds elements [8 (c lanes + lane), + 8).
struct Lane {
  int64_t row, n;
  int lane, lanes;
  bool live;  // the row exists

  __device__ int64_t at(int chunk) const { return 8 * (static_cast<int64_t>(chunk) * lanes + lane); }
};

// The sum over all threads of a row, in all of them. Every thread of the block has to come here.
__device__ inline float row_sum(float x, int lanes) {
  if (lanes <= 32) return group_sum(x, lanes);
  __shared__ float parts[32];
  x = group_sum(x, 32);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = parts[0];
  for (int i = 1; i < lanes / 32; ++i) x += parts[i];
  __syncthreads();
  return x;
}

// The share of the calling thread, its values loaded: zeros beyond the row, and in rows that the last block has to
// spare (they still take part in sums).
template <class X>
__device__ inline Lane load_row(const X* x, const RowShape& shape, float* v) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / shape.lanes) + threadIdx.x / shape.lanes;
  const Lane lane{row, shape.n, static_cast<int>(threadIdx.x % shape.lanes), shape.lanes, row < shape.rows};
  const X* from = x + row / shape.inner * shape.from_stride + row % shape.inner * shape.n;
  const bool vector = aligned(from);
#pragma unroll
  for (int c = 0; c < chunks; ++c)
    if (lane.live)
      load8(from, lane.at(c), shape.n, vector, v + 8 * c);
    else
      for (int j = 0; j < 8; ++j) v[8 * c + j] = 0;
  return lane;
}

// Op: `statistics(lane, v)` sees all values of the thread (zeros beyond the row) and may call row_sum; `apply(i, v)`
// then changes eight of them; Op is a struct of plain values, copied to each thread.
template <class X, class Y, class Op>
__global__ void __launch_bounds__(1024) rows_kernel(const X* x, Y* y, RowShape shape, Op op) {
  float v[chunks * 8];
  const Lane lane = load_row(x, shape, v);
  op.statistics(lane, v);
  if (!lane.live) return;
  Y* to = y + lane.row / shape.inner * shape.to_stride + lane.row % shape.inner * shape.n;
  const bool vector = aligned(to);
#pragma unroll
  for (int c = 0; c < chunks; ++c) {
    if (lane.at(c) >= shape.n) continue;
    op.apply(lane, lane.at(c), v + 8 * c);
    store8(to, lane.at(c), shape.n, vector, v + 8 * c);
  }
}

template <class X, class Y, class Op>
void launch_rows(cudaStream_t s, const X* x, Y* y, const RowShape& shape, const Op& op) {
  launch(rows_kernel<X, Y, Op>, blocks(shape.rows, shape.rows_a_block()), dim3(static_cast<unsigned>(shape.block)), s,
         x, y, shape, op);
}

// For any pair of compute types.
template <class Op>
void for_rows(cudaStream_t s, const Tensor& x, const Tensor& y, const Op& op) {
  if (x.size() == 0) return;
  const RowShape shape(x.size() / x.dim(-1), x.dim(-1));
  with_type(x.dtype(), [&]<class X>(X) {
    with_type(y.dtype(), [&]<class Y>(Y) { launch_rows(s, pointer<const X>(x), pointer<Y>(y), shape, op); });
  });
}

// ---- statistics, shared by plain and fused forms ----------------------------------------------------------------

struct NoStatistics {
  __device__ void statistics(const Lane&, const float*) {}
};

__device__ inline float square_sum(const Lane& lane, const float* v) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < chunks * 8; ++i) sum += v[i] * v[i];
  return row_sum(sum, lane.lanes);
}

// 1 / sqrt(mean(x^2) + eps), of the row or of a longer one whose sum of squares is given.
struct Inverse {
  float eps;
  const float* sums;
  int64_t columns;  // of `sums`

  Inverse(float eps_, const Tensor& sums_, int64_t columns_)
      : eps(eps_), sums(pointer<const float>(sums_)), columns(columns_) {}

  __device__ float of(const Lane& lane, const float* v) const {
    if (!sums) return 1.0f / sqrtf(square_sum(lane, v) / static_cast<float>(lane.n) + eps);
    return lane.live ? 1.0f / sqrtf(sums[lane.row] / static_cast<float>(columns) + eps) : 0.0f;
  }
};

// Mean, then the mean of squared differences: two passes over registers.
struct Moments {
  float mean = 0, inverse = 0;

  __device__ void take(const Lane& lane, const float* v, float eps) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < chunks * 8; ++i) sum += v[i];
    mean = row_sum(sum, lane.lanes) / static_cast<float>(lane.n);
    float squares = 0;
#pragma unroll
    for (int i = 0; i < chunks * 8; ++i) {
      const float off = v[i] - mean;
      if (lane.at(i / 8) + i % 8 < lane.n) squares += off * off;
    }
    inverse = 1.0f / sqrtf(row_sum(squares, lane.lanes) / static_cast<float>(lane.n) + eps);
  }
  __device__ float norm(float v) const { return (v - mean) * inverse; }
};

// A row over its root mean square, times w: the plain norm, and the beginning of the fused one.
struct ScaledRow {
  Channels w;
  Inverse mean;
  float inverse = 0;

  __device__ void statistics(const Lane& lane, const float* v) { inverse = mean.of(lane, v); }
  __device__ void scale(const Lane& lane, int64_t i, float* v) const {
    float gain[8];
    w.load(i, lane.n, true, gain);
    for (int j = 0; j < 8; ++j) v[j] = v[j] * inverse * gain[j];
  }
};

}  // namespace zoetrope::cuda
