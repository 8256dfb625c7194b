// Norms over the last axis, modulation, and the residual update: loops over rows. Statistics are fp32 sums in the fixed
// order of sum_of; a fused form is the same row functions one after the other.
#include <algorithm>
#include <cmath>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/floats.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vec.h"

namespace zoetrope {
namespace {

struct Moments {
  float mean, inverse;  // 1 / sqrt(var + eps)
};

template <class X>
inline Moments moments(const X* x, int64_t n, float eps) {
  const auto count = static_cast<float>(n);
  const float mean = sum_of(n, [&](int64_t i) { return load(x[i]); }) / count;
  const float var = sum_of(n, [&](int64_t i) { return (load(x[i]) - mean) * (load(x[i]) - mean); }) / count;
  return {mean, 1.0f / std::sqrt(var + eps)};
}

template <class X, class Y>
ZOETROPE_CLONES void layer_norm_row(const X* x, const float* w, const float* b, int64_t n, float eps, Y* y) {
  const Moments m = moments(x, n, eps);
  if (w)
    for (int64_t i = 0; i < n; ++i) store(y[i], (load(x[i]) - m.mean) * m.inverse * w[i] + b[i]);
  else
    for (int64_t i = 0; i < n; ++i) store(y[i], (load(x[i]) - m.mean) * m.inverse);
}

template <class X, class Y>
ZOETROPE_CLONES void modulate_row(const X* x, const float* shift, const float* scale, int64_t n, Y* y) {
  for (int64_t i = 0; i < n; ++i) store(y[i], load(x[i]) * (1.0f + scale[i]) + shift[i]);
}

template <class X, class Y>
ZOETROPE_CLONES void norm_modulate_row(const X* x, const float* shift, const float* scale, int64_t n, float eps, Y* y) {
  const Moments m = moments(x, n, eps);
  for (int64_t i = 0; i < n; ++i) store(y[i], (load(x[i]) - m.mean) * m.inverse * (1.0f + scale[i]) + shift[i]);
}

template <class Y>
ZOETROPE_CLONES void gate_add_row(float* h, const Y* y, const float* gate, int64_t n) {
  if (gate)
    for (int64_t i = 0; i < n; ++i) h[i] += load(y[i]) * gate[i];
  else
    for (int64_t i = 0; i < n; ++i) h[i] += load(y[i]);
}

template <class X>
ZOETROPE_CLONES void channel_norm_row(const X* x, const float* gamma, bool silu, int64_t n, X* y) {
  const float norm = std::sqrt(sum_of(n, [&](int64_t i) { return load(x[i]) * load(x[i]); }));
  const float inverse = std::sqrt(static_cast<float>(n)) / std::max(norm, 1e-12f);
  if (silu)
    for (int64_t i = 0; i < n; ++i) store(y[i], silu_of(load(x[i]) * inverse * gamma[i]));
  else
    for (int64_t i = 0; i < n; ++i) store(y[i], load(x[i]) * inverse * gamma[i]);
}

template <class X>
ZOETROPE_CLONES void add_row(X* x, const X* more, int64_t n) {
  for (int64_t i = 0; i < n; ++i) store(x[i], load(x[i]) + load(more[i]));
}

// Row of a [R, C] table that token s uses.
const float* row_of(const Tensor& table, const Tensor& rows, int64_t s) {
  return table.data<float>() + (rows.defined() ? rows.data<int32_t>()[s] : 0) * table.dim(1);
}

}  // namespace

void CpuBackend::rms_norm(Ctx& c, Tensor x, Tensor w, float eps, RowSquares whole, Tensor y) {
  const Floats weight(w, w.size(), 1.0f);
  const float* squares = whole.sums.defined() ? whole.sums.data<float>() : nullptr;
  for_rows(c.pool(), x, y, [&](const auto* from, auto* to, int64_t s, int64_t n) {
    if (squares)
      rms_scale_row(from, weight.data(), n, squares[s], whole.columns, eps, to);
    else
      rms_norm_row(from, weight.data(), n, eps, to);
  });
}

void CpuBackend::square_sums(Ctx& c, Heads x, Tensor sums) {
  const int64_t columns = x.heads * x.width;
  with_type(x.dtype(), [&]<class X>(X) {
    c.pool().for_each(x.tokens, tokens_a_piece(x), [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) sums.data<float>()[s] = square_sum(x.token<X>(s), columns);
    });
  });
}

void CpuBackend::layer_norm(Ctx& c, Tensor x, Tensor w, Tensor b, float eps, Tensor y) {
  const bool affine = w.defined() || b.defined();
  const Floats weight(w, x.dim(-1), 1.0f), bias(b, x.dim(-1), 0.0f);
  for_rows(c.pool(), x, y, [&](const auto* from, auto* to, int64_t, int64_t n) {
    layer_norm_row(from, affine ? weight.data() : nullptr, bias.data(), n, eps, to);
  });
}

void CpuBackend::modulate(Ctx& c, Tensor x, Modulation m, Tensor y) {
  for_rows(c.pool(), x, y, [&](const auto* from, auto* to, int64_t s, int64_t n) {
    modulate_row(from, row_of(m.shift, m.rows, s), row_of(m.scale, m.rows, s), n, to);
  });
}

void CpuBackend::norm_modulate(Ctx& c, Tensor x, Modulation m, float eps, Tensor y) {
  for_rows(c.pool(), x, y, [&](const auto* from, auto* to, int64_t s, int64_t n) {
    norm_modulate_row(from, row_of(m.shift, m.rows, s), row_of(m.scale, m.rows, s), n, eps, to);
  });
}

void CpuBackend::gate_add(Ctx& c, Tensor h, Tensor y, Tensor gate, Tensor rows) {
  for_rows(c.pool(), y, h, [&](const auto* from, auto* to, int64_t s, int64_t n) {
    if constexpr (std::is_same_v<decltype(to), float*>)  // h is always fp32
      gate_add_row(to, from, gate.defined() ? row_of(gate, rows, s) : nullptr, n);
  });
}

void CpuBackend::gate_add_norm(Ctx& c, Tensor h, Tensor y, Tensor gate, Tensor rows, NextNorm next, Tensor n) {
  const bool affine = next.w.defined() || next.b.defined();
  const Floats weight(next.w, h.dim(-1), 1.0f), bias(next.b, h.dim(-1), 0.0f);
  for_rows(c.pool(), y, n, [&](const auto* from, auto* to, int64_t s, int64_t count) {
    float* sum = h.data<float>() + s * count;
    gate_add_row(sum, from, gate.defined() ? row_of(gate, rows, s) : nullptr, count);
    const float* now = sum;
    if (next.modulated())
      norm_modulate_row(now, row_of(next.m.shift, next.m.rows, s), row_of(next.m.scale, next.m.rows, s), count,
                        next.eps, to);
    else
      layer_norm_row(now, affine ? weight.data() : nullptr, bias.data(), count, next.eps, to);
  });
}

void CpuBackend::channel_norm(Ctx& c, Tensor x, Tensor gamma, bool silu, Tensor y) {
  const Floats weight(gamma, gamma.size(), 1.0f);
  for_rows(c.pool(), x, y, [&](const auto* from, auto* to, int64_t, int64_t n) {
    if constexpr (std::is_same_v<decltype(from), const std::remove_pointer_t<decltype(to)>*>)  // y has x's type
      channel_norm_row(from, weight.data(), silu, n, to);
  });
}

void CpuBackend::add_channel_norm(Ctx& c, Tensor x, Tensor more, Tensor gamma, bool silu, Tensor y) {
  const Floats weight(gamma, gamma.size(), 1.0f);
  for_rows(c.pool(), more, y, [&](const auto* from, auto* to, int64_t s, int64_t n) {
    using X = std::remove_pointer_t<decltype(to)>;
    if constexpr (std::is_same_v<decltype(from), const X*>) {  // all have one type
      X* const row = x.data<X>() + s * n;
      add_row(row, from, n);
      channel_norm_row(row, weight.data(), silu, n, to);
    }
  });
}

}  // namespace zoetrope
