// The clock of `zoetrope tune`: candidates take turns on a stream, and only those count whose result has the bits of
// the first.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "core/tensor.h"

namespace zoetrope::cuda {

struct Fastest {
  size_t best = 0;              // of the candidates; the first where none gains a percent
  double us = 0, first_us = 0;  // medians
};

// run(i) launches candidate i, which leaves its result in `results`. At least one candidate.
Fastest fastest(cudaStream_t stream, size_t candidates, const std::function<void(size_t i)>& run,
                const std::vector<Tensor>& results);

}  // namespace zoetrope::cuda
