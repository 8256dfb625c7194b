#include "ops/cuda/driver.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "ops/cuda/check.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/usable.h"

namespace zoetrope::cuda {
namespace {

int driver_version() {
  int version = 0;
  forget(cudaDriverGetVersion(&version));
  return version;
}

template <class F>
void find(const char* name, F& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &result));
#else
  check(cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &result));
#endif
  if (result != cudaDriverEntryPointSuccess || !address)
    fail(Code::device, "device cuda: the driver ", version_text(driver_version()), " lacks ", name,
         "; install a newer one");
  function = reinterpret_cast<F>(address);
}

}  // namespace

void require_driver() {
  DriverFacts facts{driver_version(), CUDART_VERSION};
  const cudaError_t e = facts.serves == 0 ? cudaSuccess : cudaGetDeviceCount(&facts.gpus);
  facts.too_old = e == cudaErrorInsufficientDriver;
  if (e != cudaErrorNoDevice && !facts.too_old) check(e);
  if (const std::string why = objection(facts); !why.empty()) fail(Code::device, why);
}

void open_device(int device) {
  require_driver();
  int count = 0;
  check(cudaGetDeviceCount(&count));
  if (device < 0 || device >= count)
    fail(Code::invalid, "device cuda: there is no GPU ", device, "; this process sees ", count);
  check(cudaSetDevice(device));
  GpuFacts facts{device};
  check(cudaDeviceGetAttribute(&facts.major, cudaDevAttrComputeCapabilityMajor, device));
  check(cudaDeviceGetAttribute(&facts.minor, cudaDevAttrComputeCapabilityMinor, device));
  facts.has_code = facts.major >= 8 && has_code();
  if (const std::string why = objection(facts); !why.empty()) fail(Code::device, why);
}

CudaFacts facts(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device));
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime));
  CudaFacts f;
  f.name = properties.name;
  f.driver = version_text(driver_version()), f.runtime = version_text(runtime);
  const size_t blas = cublasLtGetVersion(), dnn = cudnnGetVersion();
  f.cublas = cat(blas / 10000, '.', blas / 100 % 100, '.', blas % 100);
  f.cudnn = cat(dnn / 10000, '.', dnn / 100 % 100, '.', dnn % 100);
  f.capability = properties.major * 10 + properties.minor;
  f.multiprocessors = properties.multiProcessorCount;
  f.memory = properties.totalGlobalMem;
  return f;
}

Driver load_driver() {
  Driver d;
  find("cuMemAddressReserve", d.reserve), find("cuMemAddressFree", d.free);
  find("cuMemCreate", d.create), find("cuMemRelease", d.release);
  find("cuMemMap", d.map), find("cuMemUnmap", d.unmap);
  find("cuMemSetAccess", d.set_access), find("cuMemGetAllocationGranularity", d.granularity);
  find("cuTensorMapEncodeTiled", d.encode_tiled);
  return d;
}

}  // namespace zoetrope::cuda
