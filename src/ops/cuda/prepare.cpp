#include "ops/cuda/backend.h"

namespace zoetrope {

void prepare_rank(Rank& rank, Backend& backend) {
  rank.traits = backend.traits();
  rank.backend = &backend;
  if (rank.traits.device != DeviceKind::cuda) return;
  use_cuda_thread(backend);
  prepare_cuda(rank, backend);
}

}  // namespace zoetrope
