// h (fp32, in place) += y gate, alone and with the norm of what h has become.
#include "ops/cuda/kernels.h"
#include "ops/cuda/norms.cuh"

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

// The kernel reads h and stores the norm.
template <class B, class Norm>
struct GateAddNorm {
  Update<B> update;
  Norm norm;
  float* h;

  bool whole() const { return update.whole() && norm.whole(); }
  template <class L>
  __device__ void statistics(const L& lane, float* v) {
    update.add(lane, v);
#pragma unroll
    for (int c = 0; c < L::chunks; ++c)
      if (lane.has(c)) lane.store(h + lane.row * lane.n, lane.at(c), v + 8 * c);
    norm.statistics(lane, v);
  }
  template <class L>
  __device__ void apply(const L& lane, int i, float* v) const {
    norm.apply(lane, i, v);
  }
};

template <class Norm>
void gate_add_norm(cudaStream_t s, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows,
                   const Norm& norm, const Tensor& n) {
  if (h.size() == 0) return;
  const RowShape shape(h.size() / h.dim(-1), h.dim(-1));
  with_type(y.dtype(), [&]<class B>(B) {
    with_type(n.dtype(), [&]<class N>(N) {
      launch_rows(s, pointer<const float>(h), pointer<N>(n), shape,
                  GateAddNorm<B, Norm>{{y, gate, rows}, norm, pointer<float>(h)});
    });
  });
}

}  // namespace

void gate_add(cudaStream_t s, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows) {
  if (h.size() == 0) return;
  const RowShape shape(h.size() / h.dim(-1), h.dim(-1));
  with_type(y.dtype(), [&]<class B>(B) {
    launch_rows(s, pointer<const float>(h), pointer<float>(h), shape, GateAdd<B>{{y, gate, rows}});
  });
}

void gate_add_layer_norm(cudaStream_t s, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows,
                         const Tensor& w, const Tensor& b, float eps, const Tensor& n) {
  gate_add_norm(s, h, y, gate, rows, LayerNorm{Channels(w), Channels(b), eps}, n);
}

void gate_add_norm_modulate(cudaStream_t s, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows,
                            const Tensor& shift, const Tensor& scale, const Tensor& chosen, float eps,
                            const Tensor& n) {
  gate_add_norm(s, h, y, gate, rows, NormModulate{Modulate(shift, scale, chosen), eps}, n);
}

}  // namespace zoetrope::cuda
