// How far a result lies from its reference.
#pragma once
#include <cstdint>
#include <span>

namespace zoetrope {

inline constexpr double published_atol = 1e-2, published_rtol = 1e-3;

struct Difference {
  double max_abs = 0;           // max |got - ref|
  double rel_l2 = 0;            // |got - ref|_2 / |ref|_2
  double max_ref = 0, rms = 0;  // max |ref|, root of its mean square
  int64_t outside = 0;          // elements beyond the published bound, |got - ref| > atol + rtol |ref|
  bool same_bits = true;
  bool finite = true;  // of got

  double relative() const { return max_ref > 0 ? max_abs / max_ref : max_abs; }
};

// A result of another size, or one that is not finite, is infinitely far.
Difference compare(std::span<const float> got, std::span<const float> ref);

// Peak signal-to-noise ratio of 8-bit pixels, dB: 10 log10(255^2 / mean square error); infinite where they are equal.
double psnr(std::span<const uint8_t> got, std::span<const uint8_t> ref);

}  // namespace zoetrope
