// h (fp32, in place) += y gate
#include "ops/cuda/kernels.h"
#include "ops/cuda/table_rows.cuh"

namespace zoetrope::cuda {
namespace {

struct GateAdd : NoStatistics {
  float* h;
  TableRows gate;

  GateAdd(const Tensor& h_, const Tensor& gate_, const Tensor& rows) : h(pointer<float>(h_)), gate(gate_, rows) {}

  // v: eight of y; becomes eight of h, which the kernel stores.
  __device__ void apply(const Lane& lane, int64_t i, float* v) const {
    const float* row = h + lane.row * lane.n;
    float sum[8], factor[8];
    load8(row, i, lane.n, aligned(row), sum);
    if (gate.table) {
      gate.load(lane, i, factor);
      for (int j = 0; j < 8; ++j) v[j] = v[j] * factor[j];
    }
    for (int j = 0; j < 8; ++j) v[j] = sum[j] + v[j];
  }
};

}  // namespace

void gate_add(cudaStream_t s, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows) {
  if (y.size() == 0) return;
  const RowShape shape(y.size() / y.dim(-1), y.dim(-1));
  with_type(y.dtype(),
            [&]<class Y>(Y) { launch_rows(s, pointer<const Y>(y), pointer<float>(h), shape, GateAdd(h, gate, rows)); });
}

}  // namespace zoetrope::cuda
