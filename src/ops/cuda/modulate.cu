// y = x (1 + scale) + shift, alone and after a norm without weights. The rows of shift and scale are shared by all
// tokens, or chosen by each.
#include "ops/cuda/kernels.h"
#include "ops/cuda/norms.cuh"

namespace zoetrope::cuda {

void modulate(cudaStream_t s, const Tensor& x, const Tensor& shift, const Tensor& scale, const Tensor& rows,
              const Tensor& y) {
  for_rows(s, x, y, Modulate(shift, scale, rows));
}

void norm_modulate(cudaStream_t s, const Tensor& x, const Tensor& shift, const Tensor& scale, const Tensor& rows,
                   float eps, const Tensor& y) {
  for_rows(s, x, y, NormModulate{Modulate(shift, scale, rows), eps});
}

}  // namespace zoetrope::cuda
