#include "core/dtype.h"

#include <cmath>
#include <ostream>

#include "base/error.h"

namespace zoetrope {

int64_t bytes_of(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
    case DType::f8_e4m3:
    case DType::f8_e5m2:
      return 1;
  }
  return 0;
}

const char* name(DType type) {
  switch (type) {
    case DType::f32:
      return "fp32";
    case DType::f16:
      return "fp16";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "fp64";
    case DType::i64:
      return "int64";
    case DType::i32:
      return "int32";
    case DType::i16:
      return "int16";
    case DType::i8:
      return "int8";
    case DType::u8:
      return "uint8";
    case DType::boolean:
      return "bool";
    case DType::f8_e4m3:
      return "fp8_e4m3";
    case DType::f8_e5m2:
      return "fp8_e5m2";
  }
  return "unknown";
}

DType parse_dtype(std::string_view s) {
  if (s == "fp32") return DType::f32;
  if (s == "bf16") return DType::bf16;
  fail(Code::invalid, "dtype \"", s, "\" is not known; use fp32 or bf16");
}

std::ostream& operator<<(std::ostream& out, DType type) { return out << name(type); }

uint16_t f16::from(float value) {
  const auto word = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(word >> 16 & 0x8000);
  if (value != value) return sign | 0x7E00;
  const float size = std::fabs(value);
  if (size >= 65520.0f) return sign | 0x7C00;
  if (size < 0x1p-14f)  // subnormal: a multiple of 2^-24, rounded to even by the fp32 addition
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(size + 0.5f) - std::bit_cast<uint32_t>(0.5f));
  const uint32_t magnitude = (word & 0x7FFFFFFF) - (112u << 23);
  return sign | static_cast<uint16_t>((magnitude + 0xFFF + (magnitude >> 13 & 1)) >> 13);
}

}  // namespace zoetrope
