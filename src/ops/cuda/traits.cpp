#include "base/cat.h"
#include "ops/cuda/backend.h"

namespace zoetrope {

Traits cuda_traits(int capability) {
  return {.device = DeviceKind::cuda,
          .arch = cat("sm_", capability),
          .fused_glue = true,
          .gemm_workspace = size_t{64} << 20,
          .conv_workspace = size_t{256} << 20,
          .attention_workspace = size_t{64} << 20,
          .page_grain = size_t{32} << 20,
          .fixed_memory = size_t{1024} << 20};  // slots of two streams; handles and code of the libraries
}

}  // namespace zoetrope
