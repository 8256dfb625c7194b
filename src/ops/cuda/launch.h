// The one way kernels are started: arguments are converted to the kernel's own parameter types, the launch is checked.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace zoetrope::cuda {

void check_launch(cudaError_t e);  // backend.cpp; throws

// `shared`: bytes of dynamic shared memory.
template <class... P>
void launch_shared(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                   std::type_identity_t<P>... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  void* pointers[] = {&arguments...};
  check_launch(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, shared, stream));
}

template <class... P>
void launch(void (*kernel)(P...), dim3 grid, dim3 block, cudaStream_t stream, std::type_identity_t<P>... arguments) {
  launch_shared(kernel, grid, block, 0, stream, arguments...);
}

// Blocks for n pieces of work of which a block takes `each`.
inline dim3 blocks(int64_t n, int64_t each) { return dim3(static_cast<unsigned>((n + each - 1) / each)); }

}  // namespace zoetrope::cuda
