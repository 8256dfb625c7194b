// Element by element: every result is computed in fp32 and rounded once.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/floats.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vec.h"

namespace zoetrope {
namespace {

// y[i] = f(i) for i in [begin, end); f reads what it needs.
template <class Y, class F>
ZOETROPE_CLONES void loop(Y* y, int64_t begin, int64_t end, F f) {
  for (int64_t i = begin; i < end; ++i) store(y[i], f(i));
}

template <class Y, class F>
void for_elements(const Workers& pool, const Tensor& y, F f) {
  pool.for_each(y.size(), piece_elements, [&](int64_t begin, int64_t end) { loop(y.data<Y>(), begin, end, f); });
}

template <class X, class Y>
ZOETROPE_CLONES void affine_row(const X* x, const float* scale, const float* shift, int64_t n, Y* y) {
  for (int64_t i = 0; i < n; ++i) store(y[i], load(x[i]) * scale[i] + shift[i]);
}

// round((x + 1) / 2 * 255) of x clamped to [-1, 1]; halves go to even, NaN to 0.
template <class X>
ZOETROPE_CLONES void pixels(const X* x, int64_t begin, int64_t end, uint8_t* y) {
  for (int64_t i = begin; i < end; ++i) {
    float v = load(x[i]);
    v = v > -1.0f ? v : -1.0f;
    v = v < 1.0f ? v : 1.0f;
    const float shifted = (v + 1.0f) * 0.5f * 255.0f + 0x1.8p23f;  // its low bits hold the rounded value
    y[i] = static_cast<uint8_t>(std::bit_cast<uint32_t>(shifted));
  }
}

// v[i] of n elements, rounded to X, and how many of them are not finite.
template <class X>
ZOETROPE_CLONES int64_t guide_loop(const X* cond, const X* uncond, float scale, int64_t n, float* v) {
  int64_t bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    X joined = cond[i];
    if (uncond) store(joined, load(uncond[i]) + scale * (load(cond[i]) - load(uncond[i])));
    v[i] = load(joined);
    bad += !(std::fabs(v[i]) <= std::numeric_limits<float>::max());
  }
  return bad;
}

ZOETROPE_CLONES void multistep_loop(float* x, float* last, float* m1, float* m2, const float* v, const float* k,
                                    int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float m = x[i] - k[0] * v[i];
    const float y = k[1] * x[i] + k[2] * last[i] + k[3] * m1[i] + k[4] * m2[i] + k[5] * m;
    x[i] = k[6] * y + k[7] * m + k[8] * m1[i];
    last[i] = y, m2[i] = m1[i], m1[i] = m;
  }
}

// The n elements from `at` on, of which v points to the first.
void move(const MultistepState& state, int64_t at, int64_t n, const float* v, const Tensor& k) {
  multistep_loop(state.x.data<float>() + at, state.last.data<float>() + at, state.m1.data<float>() + at,
                 state.m2.data<float>() + at, v, k.data<float>(), n);
}

}  // namespace

void CpuBackend::silu(Ctx& c, Tensor x, Tensor y) {
  with_type(x.dtype(), [&]<class X>(X) {
    for_elements<X>(c.pool(), y, [x = x.data<X>()](int64_t i) { return silu_of(load(x[i])); });
  });
}

void CpuBackend::gated_gelu(Ctx& c, Tensor a, Tensor b, Tensor y) {
  with_type(a.dtype(), [&]<class X>(X) {
    for_elements<X>(c.pool(), y,
                    [a = a.data<X>(), b = b.data<X>()](int64_t i) { return gelu_of(load(a[i])) * load(b[i]); });
  });
}

void CpuBackend::add(Ctx& c, Tensor into, Tensor x) {
  with_type(into.dtype(), [&]<class Y>(Y) {
    with_type(x.dtype(), [&]<class X>(X) {
      for_elements<Y>(c.pool(), into,
                      [y = into.data<Y>(), x = x.data<X>()](int64_t i) { return load(y[i]) + load(x[i]); });
    });
  });
}

void CpuBackend::cast(Ctx& c, Tensor x, Tensor y) {
  with_type(x.dtype(), [&]<class X>(X) {
    with_type(y.dtype(),
              [&]<class Y>(Y) { for_elements<Y>(c.pool(), y, [x = x.data<X>()](int64_t i) { return load(x[i]); }); });
  });
}

void CpuBackend::copy(Ctx& c, Tensor from, Tensor to) {
  c.pool().for_each(from.bytes(), piece_elements * 4, [&](int64_t begin, int64_t end) {
    std::memmove(static_cast<std::byte*>(to.raw()) + begin, static_cast<const std::byte*>(from.raw()) + begin,
                 static_cast<size_t>(end - begin));
  });
}

void CpuBackend::fill(Ctx& c, Tensor x, float value) {
  with_type(x.dtype(), [&]<class X>(X) { for_elements<X>(c.pool(), x, [value](int64_t) { return value; }); });
}

void CpuBackend::affine(Ctx& c, Tensor x, Tensor scale, Tensor shift, Tensor y) {
  const Floats factor(scale, x.dim(-1), 1.0f), term(shift, x.dim(-1), 0.0f);
  for_rows(c.pool(), x, y, [&](const auto* from, auto* to, int64_t, int64_t n) {
    affine_row(from, factor.data(), term.data(), n, to);
  });
}

void CpuBackend::to_pixels(Ctx& c, Tensor x, Tensor y) {
  with_type(x.dtype(), [&]<class X>(X) {
    c.pool().for_each(x.size(), piece_elements, [&](int64_t begin, int64_t end) {
      pixels(static_cast<const X*>(x.data<X>()), begin, end, y.data<uint8_t>());
    });
  });
}

void CpuBackend::guide(Ctx& c, Tensor cond, Tensor uncond, Tensor scale, Tensor v) {
  with_type(cond.dtype(), [&]<class X>(X) {
    for_elements<X>(c.pool(), v, [a = cond.data<X>(), b = uncond.data<X>(), s = *scale.data<float>()](int64_t i) {
      return load(b[i]) + s * (load(a[i]) - load(b[i]));
    });
  });
}

void CpuBackend::multistep(Ctx& c, MultistepState state, Tensor v, Tensor k) {
  c.pool().for_each(v.size(), piece_elements,
                    [&](int64_t begin, int64_t end) { move(state, begin, end - begin, v.data<float>() + begin, k); });
}

// A stretch of v at a time, which stays in the cache.
void CpuBackend::guided_multistep(Ctx& c, MultistepState state, Predictions p, Tensor k, Tensor bad) {
  constexpr int64_t stretch = 1024;
  std::atomic<int64_t> found = 0;
  const float scale = p.guided() ? *p.scale.data<float>() : 0;
  with_type(p.cond.dtype(), [&]<class X>(X) {
    const X* const uncond = p.guided() ? p.uncond.data<X>() : nullptr;
    c.pool().for_each(p.cond.size(), piece_elements, [&](int64_t begin, int64_t end) {
      float v[stretch];
      for (int64_t i = begin; i < end; i += stretch) {
        const int64_t n = std::min(stretch, end - i);
        found += guide_loop(p.cond.data<X>() + i, uncond ? uncond + i : nullptr, scale, n, v);
        move(state, i, n, v, k);
      }
    });
  });
  *bad.data<float>() += static_cast<float>(found);
}

}  // namespace zoetrope
