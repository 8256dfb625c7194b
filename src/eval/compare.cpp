#include "eval/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace zoetrope {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

Difference compare(std::span<const float> got, std::span<const float> ref) {
  require(got.size() == ref.size() && !ref.empty(), "compare: ", got.size(), " values against ", ref.size());
  Difference d;
  double off2 = 0, ref2 = 0;
  for (size_t i = 0; i < ref.size(); ++i) {
    const double want = ref[i], off = std::fabs(got[i] - want);
    d.same_bits &= std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(ref[i]);
    d.finite &= std::isfinite(got[i]);
    d.max_abs = std::max(d.max_abs, off), d.max_ref = std::max(d.max_ref, std::fabs(want));
    d.outside += !(off <= published_atol + published_rtol * std::fabs(want));
    off2 += off * off, ref2 += want * want;
  }
  d.rms = std::sqrt(ref2 / static_cast<double>(ref.size()));
  d.rel_l2 = off2 == 0 ? 0 : std::sqrt(off2 / ref2);
  if (!d.finite) d.max_abs = d.rel_l2 = infinity;  // max() passes over a NaN
  return d;
}

double psnr(std::span<const uint8_t> got, std::span<const uint8_t> ref) {
  require(got.size() == ref.size() && !ref.empty(), "psnr: ", got.size(), " values against ", ref.size());
  double sum = 0;
  for (size_t i = 0; i < ref.size(); ++i) {
    const double off = static_cast<double>(got[i]) - static_cast<double>(ref[i]);
    sum += off * off;
  }
  return sum == 0 ? infinity : 10 * std::log10(255.0 * 255.0 * static_cast<double>(ref.size()) / sum);
}

}  // namespace zoetrope
