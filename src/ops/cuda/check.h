// Status codes of CUDA become exceptions that name the caller's line. Everything that a failed call may mean for the
// process: out of memory is recoverable, the rest is not (a sticky error stays with the context).
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <source_location>

#include "base/error.h"

namespace zoetrope::cuda {

inline void check(cudaError_t e, std::source_location at = std::source_location::current()) {
  if (e == cudaSuccess) return;
  fail(e == cudaErrorMemoryAllocation ? Code::out_of_memory : Code::device, "cuda: ", cudaGetErrorString(e), " (",
       at.file_name(), ":", at.line(), ")");
}

// Only its number: the driver's own texts lie behind another entry point, and cuda.h lists the numbers.
inline void check(CUresult e, std::source_location at = std::source_location::current()) {
  if (e == CUDA_SUCCESS) return;
  fail(e == CUDA_ERROR_OUT_OF_MEMORY ? Code::out_of_memory : Code::device, "cuda: driver error ", static_cast<int>(e),
       e == CUDA_ERROR_OUT_OF_MEMORY ? " (out of memory) (" : " (", at.file_name(), ":", at.line(), ")");
}

// In destructors: an error there belongs to a call that was reported already.
inline void forget(cudaError_t) {}

}  // namespace zoetrope::cuda
