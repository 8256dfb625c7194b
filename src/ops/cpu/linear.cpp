// linear: tiles of the product, then bias and activation in fp32 and one rounding.
#include <algorithm>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/floats.h"
#include "ops/cpu/vec.h"

namespace zoetrope {
namespace {

template <class Y>
ZOETROPE_CLONES void finish_row(const float* sums, const float* bias, Act act, int64_t n, Y* y) {
  switch (act) {
    case Act::none:
      for (int64_t i = 0; i < n; ++i) store(y[i], sums[i] + bias[i]);
      return;
    case Act::gelu_tanh:
      for (int64_t i = 0; i < n; ++i) store(y[i], gelu_of(sums[i] + bias[i]));
      return;
    case Act::silu:
      for (int64_t i = 0; i < n; ++i) store(y[i], silu_of(sums[i] + bias[i]));
      return;
  }
}

}  // namespace

void CpuBackend::linear(Ctx& c, Tensor x, Tensor w, Tensor b, Act act, Tensor y) {
  const int64_t k = x.dim(1), n = w.dim(0);
  const Floats bias(b, n, 0.0f);
  const LoadRows load_rows = [&](int64_t row, int64_t count, int64_t k0, int64_t k1, float* to, int64_t stride) {
    with_type(x.dtype(), [&]<class X>(X) {
      for (int64_t i = 0; i < count; ++i) widen(x.data<X>() + (row + i) * k + k0, k1 - k0, to + i * stride);
    });
  };
  const StoreRows store_rows = [&](int64_t row, int64_t count, int64_t n0, int64_t width, const float* sums,
                                   int64_t stride) {
    with_type(y.dtype(), [&]<class Y>(Y) {
      for (int64_t i = 0; i < count; ++i)
        finish_row(sums + i * stride, bias.data() + n0, act, width, y.data<Y>() + (row + i) * n + n0);
    });
  };
  product(c.pool(), tiles_, workspaces_, x.dim(0), w, load_rows, store_rows);
}

}  // namespace zoetrope
