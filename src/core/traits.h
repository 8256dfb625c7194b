// What a back end is like, as far as shapes, memory and the choice of a fused form depend on it. A dry context carries
// the traits of the back end that it imitates and no back end at all: the same model code then counts instead of works.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace zoetrope {

enum class DeviceKind : uint8_t { cpu, cuda };

const char* name(DeviceKind kind);

struct Traits {
  DeviceKind device = DeviceKind::cpu;
  std::string arch = "x86-64";   // "sm_90" on CUDA
  int64_t channel_multiple = 1;  // convolution channels are padded to this
  bool fused_glue = false;       // norm + modulate, q/k norm + rotary and their like are one kernel
  size_t gemm_workspace = 0;     // fixed, design 2
  size_t conv_workspace = 0;
  size_t attention_workspace = 0;
  size_t page_grain = size_t{2} << 20;  // a region's pages come in multiples of this
  size_t fixed_memory = 0;              // taken on the device beside the regions: work slots, libraries
};

}  // namespace zoetrope
