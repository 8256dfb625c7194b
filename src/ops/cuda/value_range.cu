// Minimum and maximum of the finite elements, and how many are not. None of the three depends on the order.
#include <cfloat>

#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

constexpr int threads = 256;
constexpr int most_blocks = 1024;

struct Range {
  float least, most;
  int64_t others;
};

__device__ inline void merge(Range& a, const Range& b) {
  a.least = fminf(a.least, b.least), a.most = fmaxf(a.most, b.most), a.others += b.others;
}

// The block's, in thread 0.
__device__ inline Range block_range(Range r) {
  __shared__ Range parts[threads / 32];
  for (int step = 16; step > 0; step /= 2) {
    Range other;
    other.least = __shfl_xor_sync(0xFFFFFFFFu, r.least, step);
    other.most = __shfl_xor_sync(0xFFFFFFFFu, r.most, step);
    other.others = __shfl_xor_sync(0xFFFFFFFFu, static_cast<long long>(r.others), step);
    merge(r, other);
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = r;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int i = 1; i < threads / 32; ++i) merge(r, parts[i]);
  return r;
}

template <class X>
__global__ void parts_kernel(const X* x, int64_t n, Range* parts) {
  Range r{INFINITY, -INFINITY, 0};
  for (int64_t i = 8 * (static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x); i < n;
       i += 8 * threads * gridDim.x) {
    float v[8];
    load8(x, i, n, aligned(x), v);
    for (int j = 0; j < 8; ++j) {
      if (i + j >= n) break;
      const bool finite = fabsf(v[j]) <= FLT_MAX;
      r.least = finite && v[j] < r.least ? v[j] : r.least;
      r.most = finite && v[j] > r.most ? v[j] : r.most;
      r.others += !finite;
    }
  }
  r = block_range(r);
  if (threadIdx.x == 0) parts[blockIdx.x] = r;
}

__global__ void whole_kernel(const Range* parts, int n, float* y) {
  Range r{INFINITY, -INFINITY, 0};
  for (int i = threadIdx.x; i < n; i += threads) merge(r, parts[i]);
  r = block_range(r);
  if (threadIdx.x == 0) y[0] = r.least, y[1] = r.most, y[2] = static_cast<float>(r.others);
}

}  // namespace

void value_range(cudaStream_t s, const Tensor& x, void* work, const Tensor& y) {
  auto* parts = static_cast<Range*>(work);
  const int count = static_cast<int>(
      x.size() > 8 * threads * most_blocks ? most_blocks : (x.size() + 8 * threads - 1) / (8 * threads));
  with_type(x.dtype(), [&]<class X>(X) {
    launch(parts_kernel<X>, dim3(static_cast<unsigned>(count)), dim3(threads), s, pointer<const X>(x), x.size(), parts);
  });
  launch(whole_kernel, dim3(1), dim3(threads), s, static_cast<const Range*>(parts), count, pointer<float>(y));
}

}  // namespace zoetrope::cuda
