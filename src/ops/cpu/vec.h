// What the flat loops are made of: loads and stores by element type, sums in a fixed order, exp and its relatives in
// fp32. All of it is plain arithmetic that the compiler turns into vector code; CLONES makes it do so for three
// instruction sets, chosen when the program starts. No loop reassociates or contracts, so all three give equal bits.
#pragma once
#include <bit>
#include <cstdint>

#include "core/dtype.h"
#include "core/with_type.h"

// Sanitized builds have the plain form only: their runtimes are not up yet when a clone is chosen.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ZOETROPE_CLONES
#else
#define ZOETROPE_CLONES __attribute__((target_clones("default", "avx2", "avx512f"), flatten))
#endif

namespace zoetrope {

inline float load(float x) { return x; }
inline float load(bf16 x) { return static_cast<float>(x); }
inline void store(float& y, float value) { y = value; }
inline void store(bf16& y, float value) { y = bf16(value); }

// to[i] = from[i] as fp32.
template <class X>
[[maybe_unused]] static ZOETROPE_CLONES void widen(const X* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) to[i] = load(from[i]);
}

// exp(x), off by less than 1 ulp for all x whose result is normal. x = n ln 2 + r, |r| <= ln(2) / 2;
// exp(r) = 1 + r + r^2 q(r) with q the least-maximum fit of degree 4; 2^n in two factors, so that no step overflows
// early. -inf gives 0, inf gives inf, NaN stays NaN.
inline float exp_of(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = x * 0x1.715476p0f + 0x1.8p23f;  // its low bits hold n, rounded to nearest
  const float n = shifted - 0x1.8p23f;
  const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;  // ln 2 in two parts; n times the first is exact
  float q = 0x1.6a2352p-10f;
  q = q * r + 0x1.123a6cp-7f;
  q = q * r + 0x1.5558f4p-5f;
  q = q * r + 0x1.55549p-3f;
  q = q * r + 0x1.fffffcp-2f;
  const float p = (q * r * r + r) + 1.0f;
  const uint32_t whole = std::bit_cast<uint32_t>(shifted) - 0x4B400000u;
  const auto half = static_cast<uint32_t>(static_cast<int32_t>(whole) >> 1);
  return p * std::bit_cast<float>((half + 127u) << 23) * std::bit_cast<float>((whole - half + 127u) << 23);
}

inline float silu_of(float x) { return x / (1.0f + exp_of(-x)); }

// x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3), written as x / (1 + exp(-2u)).
inline float gelu_of(float x) {
  const float u = 0x1.988454p-1f * (x + 0.044715f * (x * x * x));
  return x / (1.0f + exp_of(-2.0f * u));
}

// The sum of f(0) .. f(n - 1): 32 running sums, element i in sum i mod 32, folded in halves at the end.
template <class F>
inline float sum_of(int64_t n, F f) {
  constexpr int64_t lanes = 32;
  float sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane) sums[lane] += f(i + lane);
  for (int64_t lane = 0; i + lane < n; ++lane) sums[lane] += f(i + lane);
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  return sums[0];
}

}  // namespace zoetrope
