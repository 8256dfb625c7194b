// Kernels over the rows [..., C] of a tensor. A row belongs to `lanes` threads: 16 elements each of a short row, by a
// part of a warp; 32 each of a long one, by a whole block. That depends on C alone, and so does the order of a row's
// sum: a thread adds its elements in ascending order, the threads of a warp are folded by halves, then the warps are
// added in order. A row's bits depend on the row alone. Where all addresses allow it the kernel has 16-byte accesses
// and no other: that, and no division of 64 bits, is what lets it run at the memory's speed.
#pragma once
#include "ops/cuda/device.cuh"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {

constexpr int short_row = 512, most_lanes = 512;

struct RowShape {
  int64_t rows;
  int n;
  int inner = 1;  // row r begins at (r / inner) stride + (r % inner) n
  int64_t from_stride, to_stride;
  int lanes = 1, lanes_log2 = 0;  // threads of a row; the logarithm of a short row's

  RowShape(int64_t rows_, int64_t n_) : rows(rows_), n(static_cast<int>(n_)), from_stride(n_), to_stride(n_) {
    if (wide()) lanes = (n + 1023) / 1024 * 32;  // up to 512: most_channels
    while (!wide() && lanes < (n + 15) / 16) lanes *= 2, ++lanes_log2;
  }
  bool wide() const { return n > short_row; }
  int block() const { return wide() ? lanes : 128; }
  int rows_a_block() const { return block() / lanes; }
  // Whether rows of this type that begin there can be accessed by 16 bytes.
  template <class T>
  bool whole(const T* start, int64_t stride) const {
    return n % 8 == 0 && aligned(start) && stride * static_cast<int64_t>(sizeof(T)) % 16 == 0;
  }
  __device__ int64_t start(int64_t row, int64_t stride) const {
    if (inner == 1) return row * stride;
    const auto token = static_cast<uint32_t>(row) / static_cast<uint32_t>(inner);
    return token * stride + (row - static_cast<int64_t>(token) * inner) * n;
  }
};

// One thread's share of a row: chunk c holds elements [8 (c lanes + lane), + 8). Whole: eights are read as one.
template <bool Wide, bool Whole>
struct Lane {
  static constexpr int chunks = Wide ? 4 : 2, values = 8 * chunks;

  int64_t row;
  int n, lane, lanes;
  bool live;  // the row exists

  __device__ explicit Lane(const RowShape& shape) : n(shape.n), lanes(shape.lanes) {
    if constexpr (Wide) {
      row = blockIdx.x, lane = static_cast<int>(threadIdx.x), live = true;
    } else {
      row = static_cast<int64_t>(blockIdx.x) * (128 >> shape.lanes_log2) + (threadIdx.x >> shape.lanes_log2);
      lane = static_cast<int>(threadIdx.x) & (lanes - 1), live = row < shape.rows;
    }
  }
  __device__ int at(int chunk) const { return 8 * (chunk * lanes + lane); }
  __device__ bool has(int chunk) const { return live && at(chunk) < n; }

  template <class T>
  __device__ void load(const T* start, int i, float* v) const {
    if constexpr (Whole)
      load_vector(start + i, v);
    else
      load8(start, i, n, aligned(start), v);
  }
  // The same, as they lie there.
  template <class T>
  __device__ Eight<T> fetch(const T* start, int i) const {
    Eight<T> e;
    if constexpr (Whole) {
      e.read(start + i);
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (i + j < n) e.set(j, start[i + j]);
    }
    return e;
  }
  template <class T>
  __device__ void store(T* start, int i, const float* v) const {
    if constexpr (Whole)
      store_vector(start + i, v);
    else
      store8(start, i, n, aligned(start), v);
  }
  __device__ void load(const Channels& c, int i, float* v) const {
    if (c.is_bf16)
      load(static_cast<const bf16*>(c.data), i, v);
    else
      load(static_cast<const float*>(c.data), i, v);
  }
  // All values of the thread: zeros beyond the row, and in rows that the last block has to spare (they still take part
  // in sums).
  template <class T>
  __device__ void load_all(const T* start, float* v) const {
#pragma unroll
    for (int c = 0; c < chunks; ++c)
      if (has(c))
        load(start, at(c), v + 8 * c);
      else
        for (int j = 0; j < 8; ++j) v[8 * c + j] = 0;
  }
  // The sum over all threads of the row, in all of them. Every thread of the block has to come here. Each sum of a
  // kernel has a Slot of its own, memory that no other one writes: nobody waits for the readers of the one before.
  template <int Slot>
  __device__ float sum(float x) const {
    if constexpr (!Wide) return group_sum(x, lanes);
    __shared__ float parts[most_lanes / 32];
    x = group_sum(x, 32);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
    for (int i = 1; i < lanes / 32; ++i) x += parts[i];
    return x;
  }
};

// Op: `statistics(lane, v)` sees all values of the thread (zeros beyond the row), may change them and call lane.sum;
// `apply(lane, i, v)` then changes eight of them. Op is a struct of plain values, copied to each thread.
template <class L, class X, class Y, class Op>
__global__ void __launch_bounds__(most_lanes) rows_kernel(const X* x, Y* y, RowShape shape, Op op) {
  const L lane(shape);
  float v[L::values];
  lane.load_all(x + shape.start(lane.row, shape.from_stride), v);
  op.statistics(lane, v);
  Y* to = y + shape.start(lane.row, shape.to_stride);
#pragma unroll
  for (int c = 0; c < L::chunks; ++c) {
    if (!lane.has(c)) continue;
    op.apply(lane, lane.at(c), v + 8 * c);
    lane.store(to, lane.at(c), v + 8 * c);
  }
}

// f(Lane*) with the lane that suits the shape. whole: all that the kernel touches can be accessed by 16 bytes.
template <class F>
void with_lane(const RowShape& shape, bool whole, F f) {
  if (shape.wide())
    whole ? f(static_cast<Lane<true, true>*>(nullptr)) : f(static_cast<Lane<true, false>*>(nullptr));
  else
    whole ? f(static_cast<Lane<false, true>*>(nullptr)) : f(static_cast<Lane<false, false>*>(nullptr));
}

template <class X, class Y, class Op>
void launch_rows(cudaStream_t s, const X* x, Y* y, const RowShape& shape, const Op& op) {
  const bool whole = shape.whole(x, shape.from_stride) && shape.whole(y, shape.to_stride) && op.whole();
  with_lane(shape, whole, [&]<class L>(L*) {
    launch(rows_kernel<L, X, Y, Op>, blocks(shape.rows, shape.rows_a_block()),
           dim3(static_cast<unsigned>(shape.block())), s, x, y, shape, op);
  });
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

template <class L>
__device__ float square_sum(const L& lane, const float* v) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < L::values; ++i) sum += v[i] * v[i];
  return lane.template sum<0>(sum);
}

// 1 / sqrt(mean(x^2) + eps), of the row or of a longer one whose sum of squares is given.
struct Inverse {
  float eps;
  const float* sums;
  int64_t columns;  // of `sums`

  Inverse(float eps_, const Tensor& sums_, int64_t columns_)
      : eps(eps_), sums(pointer<const float>(sums_)), columns(columns_) {}

  template <class L>
  __device__ float of(const L& lane, const float* v) const {
    if (!sums) return 1.0f / sqrtf(square_sum(lane, v) / static_cast<float>(lane.n) + eps);
    return lane.live ? 1.0f / sqrtf(sums[lane.row] / static_cast<float>(columns) + eps) : 0.0f;
  }
};

// Mean, then the mean of squared differences: two passes over registers.
struct Moments {
  float mean = 0, inverse = 0;

  template <class L>
  __device__ void take(const L& lane, const float* v, float eps) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < L::values; ++i) sum += v[i];
    mean = lane.template sum<0>(sum) / static_cast<float>(lane.n);
    float squares = 0;
#pragma unroll
    for (int i = 0; i < L::values; ++i) {
      const float off = v[i] - mean;
      if (lane.at(i / 8) + i % 8 < lane.n) squares += off * off;
    }
    inverse = 1.0f / sqrtf(lane.template sum<1>(squares) / static_cast<float>(lane.n) + eps);
  }
  __device__ float norm(float v) const { return (v - mean) * inverse; }
};

// A row over its root mean square, times w: the plain norm, and the beginning of the fused one.
struct ScaledRow {
  Channels w;
  Inverse mean;
  float inverse = 0;

  bool whole() const { return w.whole(); }
  template <class L>
  __device__ void statistics(const L& lane, const float* v) {
    inverse = mean.of(lane, v);
  }
  template <class L>
  __device__ void scale(const L& lane, int i, float* v) const {
    float gain[8];
    lane.load(w, i, gain);
    for (int j = 0; j < 8; ++j) v[j] = v[j] * inverse * gain[j];
  }
};

}  // namespace zoetrope::cuda
