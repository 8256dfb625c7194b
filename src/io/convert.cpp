#include "io/convert.h"

#include <cassert>
#include <cstdint>
#include <cstring>

namespace zoetrope {
namespace {

template <class From>
float as_float(const std::byte* at) {
  From value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<float>(value);
}

template <class From, class To>
void each(const std::byte* from, To* to, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = To(as_float<From>(from + i * sizeof(From)));
}

template <class To>
void from_any(const std::byte* from, DType type, To* to, size_t count) {
  switch (type) {
    case DType::f64:
      return each<double>(from, to, count);
    case DType::f32:
      return each<float>(from, to, count);
    case DType::f16:
      return each<f16>(from, to, count);
    case DType::bf16:
      return each<bf16>(from, to, count);
    default:
      assert(false && "convert: ask converts() first");
  }
}

// No element has an exponent of all ones. A loop without a way out, which compilers turn into vector instructions.
template <class Bits>
bool none_full(const void* values, size_t count, Bits exponent) {
  const auto* at = static_cast<const std::byte*>(values);
  Bits full = 0;
  for (size_t i = 0; i < count; ++i) {
    Bits value;
    std::memcpy(&value, at + i * sizeof value, sizeof value);
    full |= static_cast<Bits>((value & exponent) == exponent ? ~Bits{0} : Bits{0});
  }
  return full == 0;
}

}  // namespace

bool converts(DType from, DType to) {
  if (from == to) return true;
  const bool source = from == DType::f64 || from == DType::f32 || from == DType::f16 || from == DType::bf16;
  return source && (to == DType::f32 || to == DType::bf16);
}

void convert(const std::byte* from, DType from_type, void* to, DType to_type, size_t count) {
  if (count == 0) return;
  if (from_type == to_type)
    std::memcpy(to, from, count * static_cast<size_t>(bytes_of(from_type)));
  else if (to_type == DType::f32)
    from_any(from, from_type, static_cast<float*>(to), count);
  else
    from_any(from, from_type, static_cast<bf16*>(to), count);
}

bool all_finite(const void* values, DType type, size_t count) {
  if (type == DType::f32) return none_full<uint32_t>(values, count, 0x7F800000);
  if (type == DType::bf16) return none_full<uint16_t>(values, count, 0x7F80);
  return true;
}

}  // namespace zoetrope
