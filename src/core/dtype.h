// Element types, and the two 16-bit floats as plain storage: arithmetic happens in fp32.
#pragma once
#include <bit>
#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace zoetrope {

enum class DType : uint8_t { f32, f16, bf16, f64, i64, i32, i16, i8, u8, boolean, f8_e4m3, f8_e5m2 };

int64_t bytes_of(DType type);
const char* name(DType type);           // "fp32", "bf16", ...
DType parse_dtype(std::string_view s);  // what --dtype takes: fp32 or bf16
std::ostream& operator<<(std::ostream& out, DType type);

// Upper half of an fp32. From fp32: round to nearest even, NaN stays a quiet NaN.
struct bf16 {
  uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    bits = value != value ? static_cast<uint16_t>(word >> 16 | 0x40)
                          : static_cast<uint16_t>((word + 0x7FFF + (word >> 16 & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

// IEEE 754 half precision, as checkpoints store it.
struct f16 {
  uint16_t bits = 0;

  f16() = default;
  explicit f16(float value) : bits(from(value)) {}
  explicit operator float() const { return to(bits); }

 private:
  static uint16_t from(float value);
  // Without branches, so that a loop over it becomes vector code.
  static float to(uint16_t bits) {
    const uint32_t sign = (bits & uint32_t{0x8000}) << 16, magnitude = bits & uint32_t{0x7FFF};
    const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f;
    const uint32_t shift = magnitude < 0x7C00 ? 127 - 15 : 255 - 31;  // of the exponent; the second: infinity, NaN
    const uint32_t normal = (magnitude << 13) + (shift << 23);
    return std::bit_cast<float>(sign | (magnitude < 0x400 ? std::bit_cast<uint32_t>(subnormal) : normal));
  }
};

template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<f16> = DType::f16;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::u8;

}  // namespace zoetrope
