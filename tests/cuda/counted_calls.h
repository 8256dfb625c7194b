// How often the engine's own code takes or gives back memory of the device, makes the host wait for it, or makes a
// graph that can be launched. The program is linked with --wrap for these calls of the CUDA runtime, so nothing of ours
// gets past; what the libraries do inside is not seen, and the pages of regions are asked of the driver:
// counted_pages.h counts them.
#pragma once
#include <cstdint>

namespace zoetrope {

struct CudaCalls {
  int64_t memory = 0, waits = 0, graphs = 0;
  bool operator==(const CudaCalls&) const = default;
};
CudaCalls cuda_calls();  // since the program began

}  // namespace zoetrope
