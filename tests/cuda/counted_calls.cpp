#include "cuda/counted_calls.h"

#include <cuda_runtime.h>

#include <atomic>

namespace zoetrope {
namespace {

std::atomic<int64_t> memory, waits, graphs;

}  // namespace

CudaCalls cuda_calls() { return {memory, waits, graphs}; }

}  // namespace zoetrope

// __real_NAME and __wrap_NAME are the linker's names for the call and for what stands in its place.
#define ZOETROPE_COUNTED(kind, name, parameters, arguments) \
  extern "C" cudaError_t __real_##name parameters;          \
  extern "C" cudaError_t __wrap_##name parameters {         \
    ++zoetrope::kind;                                       \
    return __real_##name arguments;                         \
  }

ZOETROPE_COUNTED(memory, cudaMalloc, (void** at, size_t bytes), (at, bytes))
ZOETROPE_COUNTED(memory, cudaMallocHost, (void** at, size_t bytes), (at, bytes))
ZOETROPE_COUNTED(memory, cudaFree, (void* at), (at))
ZOETROPE_COUNTED(memory, cudaFreeHost, (void* at), (at))
ZOETROPE_COUNTED(waits, cudaStreamSynchronize, (cudaStream_t stream), (stream))
ZOETROPE_COUNTED(waits, cudaEventSynchronize, (cudaEvent_t event), (event))
ZOETROPE_COUNTED(waits, cudaDeviceSynchronize, (), ())
ZOETROPE_COUNTED(waits, cudaMemcpy, (void* to, const void* from, size_t bytes, cudaMemcpyKind kind),
                 (to, from, bytes, kind))
ZOETROPE_COUNTED(graphs, cudaGraphInstantiate, (cudaGraphExec_t * made, cudaGraph_t graph, unsigned long long flags),
                 (made, graph, flags))
