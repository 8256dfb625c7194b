// The end of a product whose epilogue the library does not have: bias, activation, a tensor added, one rounding.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

constexpr int threads = 256;

// sums and y may be the same memory: a thread reads its eight before it writes them.
template <class Y>
__global__ void finish_kernel(const float* sums, Channels bias, Finish act, const Y* add, int64_t n, int64_t size,
                              Y* y) {
  const int64_t i = 8 * (static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x);
  if (i >= size) return;
  float v[8], more[8];
  load8(sums, i, size, aligned(sums), v);
  int64_t column = i % n;
  if (bias.data)
    for (int j = 0; j < 8; ++j) {
      v[j] = v[j] + bias.at(column);
      column = column + 1 == n ? 0 : column + 1;
    }
  if (add) {
    load8(add, i, size, aligned(add), more);
    for (int j = 0; j < 8; ++j) v[j] = v[j] + more[j];
  }
  for (int j = 0; j < 8; ++j)
    v[j] = act == Finish::gelu_tanh ? gelu_of(v[j]) : act == Finish::silu ? silu_of(v[j]) : v[j];
  store8(y, i, size, aligned(y), v);
}

__global__ void empty_kernel() {}

}  // namespace

bool has_code() {
  cudaFuncAttributes attributes{};
  const bool found = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(empty_kernel)) == cudaSuccess;
  cudaGetLastError();
  return found;
}

void finish(cudaStream_t s, const float* sums, const Tensor& bias, Finish act, const Tensor& add, const Tensor& y) {
  with_type(y.dtype(), [&]<class Y>(Y) {
    launch(finish_kernel<Y>, blocks(y.size(), 8 * threads), dim3(threads), s, sums, Channels(bias), act,
           pointer<const Y>(add), y.dim(-1), y.size(), pointer<Y>(y));
  });
}

}  // namespace zoetrope::cuda
