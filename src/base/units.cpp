#include "base/units.h"

#include <array>
#include <cstdio>
#include <span>

#include "base/cat.h"

namespace zoetrope {
namespace {

// The largest unit in which the value, as printed, is 1 or more.
std::string in_units(double value, double step, std::span<const char* const> units) {
  size_t unit = 0;
  for (; unit + 1 < units.size() && value >= step - 0.5; ++unit) value /= step;
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return cat(text, ' ', units[unit]);
}

}  // namespace

std::string plural(int64_t n, std::string_view noun) { return cat(n, ' ', noun, n == 1 ? "" : "s"); }

std::string grouped(int64_t n) {
  std::string text = std::to_string(n);
  for (int at = static_cast<int>(text.size()) - 3; at > (n < 0); at -= 3) text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::string human_bytes(int64_t bytes) {
  static constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  return in_units(static_cast<double>(bytes), 1024, units);
}

std::string human_flops(double flops) {
  static constexpr std::array units{"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP"};
  return in_units(flops, 1000, units);
}

}  // namespace zoetrope
