// y = x / sqrt(mean(x^2) + eps) * w, and the sums of squares alone.
#include "ops/cuda/kernels.h"
#include "ops/cuda/rows.cuh"

namespace zoetrope::cuda {
namespace {

struct RmsNorm : ScaledRow {
  template <class L>
  __device__ void apply(const L& lane, int i, float* v) const {
    scale(lane, i, v);
  }
};

template <class L, class X>
__global__ void __launch_bounds__(most_lanes) sums_kernel(const X* x, RowShape shape, float* sums) {
  const L lane(shape);
  float v[L::values];
  lane.load_all(x + shape.start(lane.row, shape.from_stride), v);
  const float sum = square_sum(lane, v);
  if (lane.live && lane.lane == 0) sums[lane.row] = sum;
}

}  // namespace

void rms_norm(cudaStream_t s, const Tensor& x, const Tensor& w, float eps, const Tensor& sums, int64_t columns,
              const Tensor& y) {
  for_rows(s, x, y, RmsNorm{{Channels(w), Inverse(eps, sums, columns)}});
}

void square_sums(cudaStream_t s, const Heads& x, const Tensor& sums) {
  RowShape shape(x.tokens, x.heads * x.width);
  shape.from_stride = x.row;
  with_type(x.dtype(), [&]<class X>(X) {
    const X* from = pointer<const X>(x.buf) + x.at;
    with_lane(shape, shape.whole(from, x.row), [&]<class L>(L*) {
      launch(sums_kernel<L, X>, blocks(shape.rows, shape.rows_a_block()), dim3(static_cast<unsigned>(shape.block())), s,
             from, shape, pointer<float>(sums));
    });
  });
}

}  // namespace zoetrope::cuda
