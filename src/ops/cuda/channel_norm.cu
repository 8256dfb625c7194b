// y = x / max(|x|, 1e-12) sqrt(C) gamma, then SiLU if asked
#include "ops/cuda/kernels.h"
#include "ops/cuda/rows.cuh"

namespace zoetrope::cuda {
namespace {

struct ChannelNorm {
  Channels gamma;
  bool silu;
  float inverse = 0;

  __device__ void statistics(const Lane& lane, const float* v) {
    const float norm = sqrtf(square_sum(lane, v));
    inverse = sqrtf(static_cast<float>(lane.n)) / (norm > 1e-12f || norm != norm ? norm : 1e-12f);
  }
  __device__ void apply(const Lane& lane, int64_t i, float* v) const {
    float gain[8];
    gamma.load(i, lane.n, true, gain);
    for (int j = 0; j < 8; ++j) v[j] = v[j] * inverse * gain[j];
    if (silu)
      for (int j = 0; j < 8; ++j) v[j] = silu_of(v[j]);
  }
};

}  // namespace

void channel_norm(cudaStream_t s, const Tensor& x, const Tensor& gamma, bool silu, const Tensor& y) {
  if (x.size() == 0) return;
  const RowShape shape(x.size() / x.dim(-1), x.dim(-1));
  with_type(x.dtype(), [&]<class X>(X) {
    launch_rows(s, pointer<const X>(x), pointer<X>(y), shape, ChannelNorm{Channels(gamma), silu});
  });
}

}  // namespace zoetrope::cuda
