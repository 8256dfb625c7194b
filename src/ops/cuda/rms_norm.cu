// y = x / sqrt(mean(x^2) + eps) * w, and the sums of squares alone.
#include "ops/cuda/kernels.h"
#include "ops/cuda/rows.cuh"

namespace zoetrope::cuda {
namespace {

struct RmsNorm : ScaledRow {
  __device__ void apply(const Lane& lane, int64_t i, float* v) const { scale(lane, i, v); }
};

template <class X>
__global__ void __launch_bounds__(1024) sums_kernel(const X* x, RowShape shape, float* sums) {
  float v[chunks * 8];
  const Lane lane = load_row(x, shape, v);
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
    launch(sums_kernel<X>, blocks(shape.rows, shape.rows_a_block()), dim3(static_cast<unsigned>(shape.block)), s,
           pointer<const X>(x.buf) + x.at, shape, pointer<float>(sums));
  });
}

}  // namespace zoetrope::cuda
