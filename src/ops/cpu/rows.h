// Loops over the rows [..., C] of a tensor, for ops that work on the last axis.
#pragma once
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/pool.h"
#include "core/tensor.h"
#include "ops/cpu/vec.h"

namespace zoetrope {

constexpr int64_t piece_elements = 16384;  // what a thread takes at a time

inline int64_t tokens_a_piece(const Heads& x) {
  return std::max<int64_t>(1, piece_elements / std::max<int64_t>(1, x.heads * x.width));
}

// f(const X* from, Y* to, int64_t row, int64_t n) for each row of x and y (same shape, any compute types).
template <class F>
void for_rows(const Workers& pool, const Tensor& x, const Tensor& y, F f) {
  if (x.size() == 0) return;
  const int64_t n = x.dim(-1), rows = x.size() / n;
  with_type(x.dtype(), [&]<class X>(X) {
    with_type(y.dtype(), [&]<class Y>(Y) {
      pool.for_each(rows, std::max<int64_t>(1, piece_elements / n), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          f(static_cast<const X*>(x.data<X>() + row * n), y.data<Y>() + row * n, row, n);
      });
    });
  });
}

template <class X>
[[maybe_unused]] static ZOETROPE_CLONES float square_sum(const X* x, int64_t n) {
  return sum_of(n, [&](int64_t i) { return load(x[i]) * load(x[i]); });
}

// y = x * w / sqrt(squares / columns + eps): x are n of a row's columns, squares sums up all of them.
template <class X, class Y>
[[maybe_unused]] static ZOETROPE_CLONES void rms_scale_row(const X* x, const float* w, int64_t n, float squares,
                                                           int64_t columns, float eps, Y* y) {
  const float inverse = 1.0f / std::sqrt(squares / static_cast<float>(columns) + eps);
  for (int64_t i = 0; i < n; ++i) store(y[i], load(x[i]) * inverse * w[i]);
}

// y = x / sqrt(mean(x^2) + eps) * w
template <class X, class Y>
void rms_norm_row(const X* x, const float* w, int64_t n, float eps, Y* y) {
  rms_scale_row(x, w, n, square_sum(x, n), n, eps, y);
}

}  // namespace zoetrope
