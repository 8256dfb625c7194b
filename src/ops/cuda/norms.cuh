// What a norm with weights and one with modulation do to a row, alone and behind a residual update.
#pragma once
#include "ops/cuda/table_rows.cuh"

namespace zoetrope::cuda {

struct LayerNorm {
  Channels w, b;
  float eps;
  Moments moments = {};

  bool whole() const { return w.whole() && b.whole(); }
  template <class L>
  __device__ void statistics(const L& lane, const float* v) {
    moments.take(lane, v, eps);
  }
  template <class L>
  __device__ void apply(const L& lane, int i, float* v) const {
    float gain[8], shift[8];
    for (int j = 0; j < 8; ++j) v[j] = moments.norm(v[j]), gain[j] = 1, shift[j] = 0;
    if (!w.data && !b.data) return;
    if (w.data) lane.load(w, i, gain);
    if (b.data) lane.load(b, i, shift);
    for (int j = 0; j < 8; ++j) v[j] = v[j] * gain[j] + shift[j];
  }
};

struct Modulate {
  TableRows shift, scale;

  Modulate(const Tensor& shift_, const Tensor& scale_, const Tensor& rows) : shift(shift_, rows), scale(scale_, rows) {}

  bool whole() const { return shift.whole() && scale.whole(); }
  template <class L>
  __device__ void statistics(const L& lane, const float*) {
    shift.find(lane), scale.find(lane);
  }
  template <class L>
  __device__ void apply(const L& lane, int i, float* v) const {
    float a[8], b[8];
    scale.load(lane, i, a), shift.load(lane, i, b);
    for (int j = 0; j < 8; ++j) v[j] = v[j] * (1.0f + a[j]) + b[j];
  }
};

struct NormModulate {
  Modulate modulate;
  float eps;
  Moments moments = {};

  bool whole() const { return modulate.whole(); }
  template <class L>
  __device__ void statistics(const L& lane, const float* v) {
    modulate.statistics(lane, v);
    moments.take(lane, v, eps);
  }
  template <class L>
  __device__ void apply(const L& lane, int i, float* v) const {
    for (int j = 0; j < 8; ++j) v[j] = moments.norm(v[j]);
    modulate.apply(lane, i, v);
  }
};

}  // namespace zoetrope::cuda
