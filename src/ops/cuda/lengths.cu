// What stands around cuDNN's attention: the two lengths that it reads from device memory, and the result without keys.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

__global__ void lengths_kernel(int32_t* at, int32_t queries, int32_t keys) { at[0] = queries, at[1] = keys; }

template <class X>
__global__ void constant_kernel(X* x, int64_t n, float value) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) narrow(x[i], value);
}

__global__ void clear_kernel(uint16_t* x, int64_t columns, int64_t row, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) x[i / columns * row + i % columns] = 0;
}

}  // namespace

void clear(cudaStream_t s, const Heads& x) {
  const int64_t columns = x.heads * x.width, n = x.tokens * columns;
  if (n > 0) launch(clear_kernel, blocks(n, 256), dim3(256), s, pointer<uint16_t>(x.buf) + x.at, columns, x.row, n);
}

void set_lengths(cudaStream_t s, int32_t* at, int32_t queries, int32_t keys) {
  launch(lengths_kernel, dim3(1), dim3(1), s, at, queries, keys);
}

void no_keys(cudaStream_t s, const Tensor& o, const Tensor& lse) {
  with_type(o.dtype(), [&]<class X>(X) {
    launch(constant_kernel<X>, blocks(o.size(), 256), dim3(256), s, pointer<X>(o), o.size(), 0.0f);
  });
  launch(constant_kernel<float>, blocks(lse.size(), 256), dim3(256), s, pointer<float>(lse), lse.size(), -INFINITY);
}

}  // namespace zoetrope::cuda
