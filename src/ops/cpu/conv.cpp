// conv: each output pixel is a row of the product, its left operand the kt*kh*kw*I inputs under the kernel, gathered
// tile by tile. A pixel's bits depend on those inputs alone: a frame split with a halo equals the whole.
#include <algorithm>

#include "ops/corner.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/floats.h"
#include "ops/cpu/vec.h"

namespace zoetrope {
namespace {

template <class Y>
ZOETROPE_CLONES void finish_row(const float* sums, const float* bias, const Y* add, int64_t n, Y* y) {
  if (add)
    for (int64_t i = 0; i < n; ++i) store(y[i], sums[i] + bias[i] + load(add[i]));
  else
    for (int64_t i = 0; i < n; ++i) store(y[i], sums[i] + bias[i]);
}

// Reads the inputs of output pixels. Axes as in ops.h: x [T + kt - 1, H, W, I], w [O, kt, kh, kw, I].
class Window {
 public:
  Window(const Tensor& x, const Tensor& w, const Tensor& y, const ConvOptions& options)
      : x_(x),
        options_(options),
        kh_(w.dim(2)),
        kw_(w.dim(3)),
        height_(x.dim(1)),
        width_(x.dim(2)),
        inputs_(x.dim(3)),
        rows_(y.dim(1)),
        columns_(y.dim(2)) {}

  // Columns [k0, k1) of the row of output pixel `pixel` (frames, rows, columns flattened).
  template <class X>
  void gather(int64_t pixel, int64_t k0, int64_t k1, float* to) const {
    const int64_t t = pixel / (rows_ * columns_), y = pixel / columns_ % rows_, x = pixel % columns_;
    for (int64_t k = k0, n = 0; k < k1; k += n, to += n) {
      const int64_t tap = k / inputs_, inside = k % inputs_;
      const int64_t row = y * options_.stride - options_.top + tap / kw_ % kh_;
      const int64_t column = x * options_.stride - options_.left + tap % kw_;
      const bool row_lies_in = row >= 0 && row < height_;
      int64_t taps = row_lies_in ? run(column, kw_ - tap % kw_) : kw_ - tap % kw_;
      n = std::min(std::max<int64_t>(taps, 1) * inputs_ - inside, k1 - k);
      if (!row_lies_in || taps == 0)
        std::fill_n(to, n, 0.0f);
      else
        widen(x_.data<X>() + address(t + tap / (kw_ * kh_), row, column) + inside, n, to);
    }
  }

 private:
  // How many of the next `taps` columns lie side by side in memory; 0 if this one lies outside.
  int64_t run(int64_t column, int64_t taps) const {
    return column < 0 || column >= width_ ? 0 : std::min(taps, width_ - column);
  }
  int64_t address(int64_t frame, int64_t row, int64_t column) const {
    return ((frame * height_ + row) * width_ + column) * inputs_;
  }

  const Tensor& x_;
  const ConvOptions& options_;
  int64_t kh_, kw_, height_, width_, inputs_, rows_, columns_;
};

// y[a, b O + o, 0, r, s] = the weights of w[o, 0] that meet pixel (r, s) of the four around a corner.
template <class W, class Y>
ZOETROPE_CLONES void sum_corner(const W* w, const Corner& rows, const Corner& columns, int64_t n, Y* y) {
  for (int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int64_t r = rows.first; r < rows.end; ++r)
      for (int64_t s = columns.first; s < columns.end; ++s) sum += load(w[(3 * r + s) * n + i]);
    store(y[i], sum);
  }
}

}  // namespace

void CpuBackend::corner_weights(Ctx& c, Tensor w, Tensor y) {
  const int64_t outputs = w.dim(0), n = w.dim(4);
  with_type(w.dtype(), [&]<class W>(W) {
    with_type(y.dtype(), [&]<class Y>(Y) {
      c.pool().for_each(4 * outputs, 16, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)  // (a, b, o)
          for (int at = 0; at < 4; ++at)
            sum_corner(static_cast<const W*>(w.data<W>()) + i % outputs * 9 * n,
                       Corner(static_cast<int>(i / (2 * outputs)), at / 2),
                       Corner(static_cast<int>(i / outputs % 2), at % 2), n, y.data<Y>() + (4 * i + at) * n);
      });
    });
  });
}

void CpuBackend::conv(Ctx& c, Tensor x, Tensor w, Tensor b, ConvOptions options, Tensor add, Tensor y) {
  const int64_t outputs = w.dim(0);
  if (y.size() == 0) return;
  const Window window(x, w, y, options);
  const Floats bias(b, outputs, 0.0f);
  const LoadRows load_rows = [&](int64_t row, int64_t count, int64_t k0, int64_t k1, float* to, int64_t stride) {
    with_type(x.dtype(), [&]<class X>(X) {
      for (int64_t i = 0; i < count; ++i) window.gather<X>(row + i, k0, k1, to + i * stride);
    });
  };
  const StoreRows store_rows = [&](int64_t row, int64_t count, int64_t n0, int64_t width, const float* sums,
                                   int64_t stride) {
    with_type(y.dtype(), [&]<class Y>(Y) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = (row + i) * outputs + n0;
        finish_row<Y>(sums + i * stride, bias.data() + n0, add.defined() ? add.data<Y>() + at : nullptr, width,
                      y.data<Y>() + at);
      }
    });
  };
  product(c.pool(), tiles_, workspaces_, y.size() / outputs, w.view({outputs, w.size() / outputs}), load_rows,
          store_rows);
}

}  // namespace zoetrope
