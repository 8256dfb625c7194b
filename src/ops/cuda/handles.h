// Owners of CUDA objects: a handle is a type alias.
#pragma once
#include <cuda_runtime.h>

#include <memory>

#include "base/calls.h"
#include "ops/cuda/check.h"

namespace zoetrope::cuda {

using StreamHandle = std::unique_ptr<CUstream_st, Calls<cudaStreamDestroy>>;
using EventHandle = std::unique_ptr<CUevent_st, Calls<cudaEventDestroy>>;
using GraphHandle = std::unique_ptr<CUgraph_st, Calls<cudaGraphDestroy>>;
using GraphExecHandle = std::unique_ptr<CUgraphExec_st, Calls<cudaGraphExecDestroy>>;
using DeviceBuffer = std::unique_ptr<void, Calls<cudaFree>>;
using PinnedBuffer = std::unique_ptr<void, Calls<cudaFreeHost>>;

// Without a time, unless told otherwise.
inline EventHandle make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags));
  return EventHandle(event);
}

}  // namespace zoetrope::cuda
