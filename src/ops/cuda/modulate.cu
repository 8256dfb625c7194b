// y = x (1 + scale) + shift, alone and after a norm without weights. The rows of shift and scale are shared by all
// tokens, or chosen by each.
#include "ops/cuda/kernels.h"
#include "ops/cuda/table_rows.cuh"

namespace zoetrope::cuda {
namespace {

struct Modulate : NoStatistics {
  TableRows shift, scale;

  Modulate(const Tensor& shift_, const Tensor& scale_, const Tensor& rows) : shift(shift_, rows), scale(scale_, rows) {}

  __device__ void apply(const Lane& lane, int64_t i, float* v) const {
    float a[8], b[8];
    scale.load(lane, i, a), shift.load(lane, i, b);
    for (int j = 0; j < 8; ++j) v[j] = v[j] * (1.0f + a[j]) + b[j];
  }
};

struct NormModulate {
  Modulate modulate;
  float eps;
  Moments moments = {};

  __device__ void statistics(const Lane& lane, const float* v) { moments.take(lane, v, eps); }
  __device__ void apply(const Lane& lane, int64_t i, float* v) const {
    for (int j = 0; j < 8; ++j) v[j] = moments.norm(v[j]);
    modulate.apply(lane, i, v);
  }
};

}  // namespace

void modulate(cudaStream_t s, const Tensor& x, const Tensor& shift, const Tensor& scale, const Tensor& rows,
              const Tensor& y) {
  for_rows(s, x, y, Modulate(shift, scale, rows));
}

void norm_modulate(cudaStream_t s, const Tensor& x, const Tensor& shift, const Tensor& scale, const Tensor& rows,
                   float eps, const Tensor& y) {
  for_rows(s, x, y, NormModulate{Modulate(shift, scale, rows), eps});
}

}  // namespace zoetrope::cuda
