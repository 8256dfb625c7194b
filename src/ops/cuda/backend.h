// The CUDA back end: own kernels, cuBLASLt behind linear, cuDNN behind attention and convolutions. A build without CUDA
// has the same functions (no_cuda.cpp): those that need a device refuse by name, traits answer everywhere, so that a
// dry context can imitate a GPU on any machine.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/backend.h"

namespace zoetrope {

bool cuda_is_built();

// Makes the back end of one GPU. Error(device) in one line where there is no driver, an old one, no such GPU, or one
// that this build has no code for. The calling thread's current device becomes this one.
std::unique_ptr<Backend> make_cuda_backend(int device);

// Gives a rank the streams, pages, segments and traits of a back end made above; before its first Ctx.
void prepare_cuda(Rank& rank, Backend& backend);

// Gives a rank any back end, one made above or the CPU's, in the thread that will make its first Ctx.
void prepare_rank(Rank& rank, Backend& backend);

// CUDA keeps a current device per thread: whoever issues work in another thread than the maker calls this first.
void use_cuda_thread(Backend& backend);

// What a dry context needs to imitate a GPU: compute capability times ten, 90 for an H200.
Traits cuda_traits(int capability);

struct CudaFacts {
  std::string name, driver, runtime, cublas, cudnn;  // "NVIDIA H200", "13.0", "13.0", "13.1.1", "9.19.0"
  int capability = 0, multiprocessors = 0;           // 90
  size_t memory = 0, free = 0;                       // bytes
};
// One per GPU. Fails in the same words as make_cuda_backend where none can be used.
std::vector<CudaFacts> cuda_devices();

CudaFacts cuda_facts(Backend& backend);  // of its GPU

// Tables of measured plans (ops/cuda/tuning.h). The name of the file that belongs to a back end, without ".json"; and
// what it says, used from the next plan on: the table's hash, or Error(invalid) where it is damaged or was made for
// another GPU or library.
std::string cuda_tuning_name(Backend& backend);
std::string use_cuda_tuning(Backend& backend, std::string_view json, std::string_view where);
std::vector<std::string> cuda_tuning_warnings(Backend& backend);  // plans of the table that could not be taken
// From begin to end every new plan is chosen by the clock, on the operands that it meets; end gives the table.
void begin_cuda_tuning(Backend& backend);
std::string end_cuda_tuning(Backend& backend);

// core/digest.h of all tensors, summed.
uint64_t cuda_digest(Backend& backend, const std::vector<Tensor>& tensors);

// The library plans a back end has chosen so far, "conv 384x384 k3x3x3 ...: eng9_k2=...", for reports and tests.
std::vector<std::string> cuda_plans(Backend& backend);

}  // namespace zoetrope
