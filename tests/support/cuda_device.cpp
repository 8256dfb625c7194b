#include <cuda_runtime.h>

#include "base/error.h"
#include "ops/cuda/backend.h"
#include "support/device.h"

namespace zoetrope::device {
namespace {

void check(cudaError_t e) {
  if (e != cudaSuccess) fail(Code::device, "test device: ", cudaGetErrorString(e));
}

}  // namespace

std::unique_ptr<Backend> make_backend() { return make_cuda_backend(0); }
Traits traits() { return cuda_traits(cuda_devices().front().capability); }
void prepare(Rank& rank, Backend& backend) { prepare_cuda(rank, backend); }

void read(const Tensor& from, void* to) {
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(to, from.raw(), static_cast<size_t>(from.bytes()), cudaMemcpyDeviceToHost));
}

void write(const void* from, const Tensor& to) {
  check(cudaMemcpy(to.raw(), from, static_cast<size_t>(to.bytes()), cudaMemcpyHostToDevice));
  check(cudaDeviceSynchronize());
}

// Before later work of any stream, after all earlier.
void poison(void* at, size_t bytes) {
  check(cudaDeviceSynchronize());
  check(cudaMemset(at, 0xFF, bytes));
  check(cudaDeviceSynchronize());
}

}  // namespace zoetrope::device
