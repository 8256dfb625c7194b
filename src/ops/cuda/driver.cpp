#include "ops/cuda/driver.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "ops/cuda/check.h"
#include "ops/cuda/kernels.h"

namespace zoetrope::cuda {
namespace {

// 13000 is 13.0
std::string version_text(int v) { return cat(v / 1000, '.', v % 1000 / 10); }

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
  const int driver = driver_version();
  if (driver == 0)
    fail(Code::device, "device cuda: no NVIDIA driver on this machine; install one, or use --device cpu");
  int count = 0;
  const cudaError_t e = cudaGetDeviceCount(&count);
  if (e == cudaErrorInsufficientDriver)
    fail(Code::device, "device cuda: the driver is old: it serves CUDA ", version_text(driver), ", this build needs ",
         version_text(CUDART_VERSION), "; install a newer driver, or use --device cpu");
  if (e == cudaErrorNoDevice || (e == cudaSuccess && count == 0))
    fail(Code::device, "device cuda: the driver sees no GPU (is CUDA_VISIBLE_DEVICES set to none?); use --device cpu");
  check(e);
}

void open_device(int device) {
  require_driver();
  int count = 0;
  check(cudaGetDeviceCount(&count));
  if (device < 0 || device >= count)
    fail(Code::invalid, "device cuda: there is no GPU ", device, "; this process sees ", count);
  check(cudaSetDevice(device));
  int major = 0, minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  if (major < 8)
    fail(Code::device, "device cuda: GPU ", device, " is too old: compute capability ", major, '.', minor,
         ", 8.0 or newer is needed; use --device cpu");
  if (!has_code())
    fail(Code::device, "device cuda: this build has no code for GPU ", device, " (compute capability ", major, '.',
         minor, "); configure with -DCMAKE_CUDA_ARCHITECTURES=", major, minor);
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
