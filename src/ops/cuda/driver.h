// The driver, reached at run time: the program starts on a machine that has none. Only what the runtime library lacks
// is fetched by name: the calls that reserve addresses and map pages into them, and the one that describes a tensor to
// the tensor memory accelerator.
#pragma once
#include <cuda.h>

#include "ops/cuda/backend.h"

namespace zoetrope::cuda {

// Throws one line if no GPU can be used: no driver, an old driver, no GPU.
void require_driver();
// Throws if there is no such device, or this build has no code for it. Makes it the thread's current device.
void open_device(int device);
CudaFacts facts(int device);

struct Driver {
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuTensorMapEncodeTiled) encode_tiled = nullptr;
};
Driver load_driver();

}  // namespace zoetrope::cuda
