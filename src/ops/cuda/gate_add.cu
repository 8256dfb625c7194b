// h (fp32, in place) += y gate
#include "ops/cuda/kernels.h"
#include "ops/cuda/table_rows.cuh"

namespace zoetrope::cuda {
namespace {

// B: y's type.
template <class B>
struct Update {
  const B* y;
  TableRows gate;

  Update(const Tensor& y_, const Tensor& gate_, const Tensor& rows) : y(pointer<const B>(y_)), gate(gate_, rows) {}

  bool whole() const { return aligned(y) && gate.whole(); }
  // v: a row of h; becomes h + y gate. All of y is read before anything is stored.
  template <class L>
  __device__ void add(const L& lane, float* v) {
    gate.find(lane);
    const B* row = y + lane.row * lane.n;
    Eight<B> branch[L::chunks];
#pragma unroll
    for (int c = 0; c < L::chunks; ++c)
      if (lane.has(c)) branch[c] = lane.fetch(row, lane.at(c));
#pragma unroll
    for (int c = 0; c < L::chunks; ++c) {
      if (!lane.has(c)) continue;
      float b[8], factor[8];
      branch[c].widen(b);
      if (gate.table) {
        gate.load(lane, lane.at(c), factor);
        for (int j = 0; j < 8; ++j) b[j] = b[j] * factor[j];
      }
      for (int j = 0; j < 8; ++j) v[8 * c + j] = v[8 * c + j] + b[j];
    }
  }
};

// The kernel reads and stores h.
template <class B>
struct GateAdd {
  Update<B> update;

  bool whole() const { return update.whole(); }
  template <class L>
  __device__ void statistics(const L& lane, float* v) {
    update.add(lane, v);
  }
  template <class L>
  __device__ void apply(const L&, int, float*) const {}
};

}  // namespace

void gate_add(cudaStream_t s, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows) {
  if (h.size() == 0) return;
  const RowShape shape(h.size() / h.dim(-1), h.dim(-1));
  with_type(y.dtype(), [&]<class B>(B) {
    launch_rows(s, pointer<const float>(h), pointer<float>(h), shape, GateAdd<B>{{y, gate, rows}});
  });
}

}  // namespace zoetrope::cuda
