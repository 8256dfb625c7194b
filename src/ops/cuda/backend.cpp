#include "ops/cuda/backend.h"

#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/dnn.h"
#include "ops/cuda/hopper_attention.h"
#include "ops/cuda/intake.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/pages.h"
#include "ops/cuda/segments.h"
#include "ops/cuda/stream.h"

namespace zoetrope {
namespace cuda {
namespace {

CudaBackend& of(Backend& backend) { return dynamic_cast<CudaBackend&>(backend); }

int opened(int device) {
  open_device(device);
  return device;
}

}  // namespace

void check_launch(cudaError_t e) { check(e); }

CudaBackend::CudaBackend(int device)
    : device_(opened(device)),
      facts_(cuda::facts(device)),
      driver_(load_driver()),
      hopper_(facts_.capability == 90 && has_hopper_code()),
      dnn_(std::make_unique<Dnn>(facts_.capability, tuning_)) {}

std::shared_ptr<std::byte> CudaBackend::host_memory(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t made = cudaMallocHost(&memory, bytes);
  if (made == cudaErrorMemoryAllocation) {
    forget(cudaGetLastError());  // it would be the next launch's
    fail(Code::out_of_memory, "memory: the host cannot pin ", bytes, " bytes for the GPU");
  }
  check(made);
  return {static_cast<std::byte*>(memory), [](std::byte* p) { forget(cudaFreeHost(p)); }};
}

std::vector<std::string> CudaBackend::plans() const {
  std::vector<std::string> lines = products_.plans();
  const std::vector<std::string> more = dnn_->plans();
  lines.insert(lines.end(), more.begin(), more.end());
  return lines;
}

}  // namespace cuda

bool cuda_is_built() { return true; }

std::unique_ptr<Backend> make_cuda_backend(int device) { return std::make_unique<cuda::CudaBackend>(device); }

namespace {

DeviceMemory memory_now() {  // of the current device
  size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total));
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

}  // namespace

void prepare_cuda(Rank& rank, Backend& backend) {
  const cuda::CudaBackend& b = cuda::of(backend);
  const int device = b.device();
  rank.traits = b.traits();
  rank.backend = &backend;
  rank.main = std::make_unique<cuda::CudaStream>();
  rank.make_side = [] { return std::make_unique<cuda::CudaStream>(); };
  rank.make_pages = [device, driver = b.driver()](size_t reserve) {
    return cuda::device_pages(driver, device, reserve);
  };
  rank.make_intake = [](const Intake::Buffers& buffers) {
    return std::make_unique<Intake>(cuda::intake_port(buffers), buffers);
  };
  rank.enter_thread = [device] { cuda::check(cudaSetDevice(device)); };
  rank.device_memory = memory_now;
  rank.segments = std::make_unique<cuda::GraphSegments>();
}

void use_cuda_thread(Backend& backend) { cuda::check(cudaSetDevice(cuda::of(backend).device())); }

namespace {

CudaFacts with_free(int device) {  // of the current device
  CudaFacts facts = cuda::facts(device);
  facts.free = static_cast<size_t>(memory_now().free);
  return facts;
}

}  // namespace

CudaFacts cuda_facts(Backend& backend) {
  use_cuda_thread(backend);
  return with_free(cuda::of(backend).device());
}

std::vector<CudaFacts> cuda_devices() {
  cuda::require_driver();
  int count = 0, current = 0;
  cuda::check(cudaGetDeviceCount(&count));
  cuda::check(cudaGetDevice(&current));
  std::vector<CudaFacts> all;
  for (int i = 0; i < count; ++i) {
    cuda::check(cudaSetDevice(i));
    all.push_back(with_free(i));
  }
  cuda::check(cudaSetDevice(current));
  return all;
}

std::string cuda_tuning_name(Backend& backend) {
  const CudaFacts& f = cuda::of(backend).facts();
  return cuda::tuning_name(f.name, f.cublas, f.cudnn);
}

std::string use_cuda_tuning(Backend& backend, std::string_view json, std::string_view where) {
  cuda::TuningTable table = cuda::TuningTable::parse(json, where);
  const CudaFacts& f = cuda::of(backend).facts();
  require(table.device == f.name && table.cublas == f.cublas && table.cudnn == f.cudnn, where, ": a table for ",
          table.device, " with cuBLASLt ", table.cublas, " and cuDNN ", table.cudnn, ", but here are ", f.name,
          " with ", f.cublas, " and ", f.cudnn, "; write one with `zoetrope tune`");
  cuda::of(backend).tuning().table = std::move(table);
  return cuda::of(backend).tuning().table->hash();
}

std::vector<std::string> cuda_tuning_warnings(Backend& backend) { return cuda::of(backend).tuning().warnings; }

void begin_cuda_tuning(Backend& backend) { cuda::of(backend).tuning().measuring = true; }

std::string end_cuda_tuning(Backend& backend) {
  cuda::Tuning& tuning = cuda::of(backend).tuning();
  const CudaFacts& f = cuda::of(backend).facts();
  tuning.measuring = false;
  tuning.found.device = f.name, tuning.found.cublas = f.cublas, tuning.found.cudnn = f.cudnn;
  return tuning.found.text();
}

uint64_t cuda_digest(Backend& backend, const std::vector<Tensor>& tensors) {
  use_cuda_thread(backend);
  void* at = nullptr;
  cuda::check(cudaMalloc(&at, 8));
  const cuda::DeviceBuffer sum(at);
  cuda::check(cudaDeviceSynchronize());
  cuda::check(cudaMemset(at, 0, 8));
  for (const Tensor& x : tensors) cuda::digest(nullptr, x, static_cast<unsigned long long*>(at));
  uint64_t value = 0;
  cuda::check(cudaMemcpy(&value, at, 8, cudaMemcpyDeviceToHost));
  return value;
}

std::vector<std::string> cuda_plans(Backend& backend) { return cuda::of(backend).plans(); }

}  // namespace zoetrope
