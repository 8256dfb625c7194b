// A number for a tensor's bytes, the same on every device: the sum of its 64-bit words, each mixed with its place, so
// that it can be taken in any order. For comparing runs, not against forgers.
#pragma once
#include <cstdint>
#include <cstring>

#include "core/tensor.h"

namespace zoetrope {

// clang-format off
#if defined(__CUDACC__)
__host__ __device__
#endif
constexpr uint64_t digest_word(uint64_t word, int64_t i) {  // clang-format on
  uint64_t z = (word ^ (static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15)) + 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// Of host memory; the last word is filled up with zeros.
inline uint64_t digest(const Tensor& x) {
  uint64_t sum = 0;
  const auto* at = static_cast<const std::byte*>(x.raw());
  for (int64_t i = 0; 8 * i < x.bytes(); ++i) {
    uint64_t word = 0;
    const int64_t left = x.bytes() - 8 * i;
    std::memcpy(&word, at + 8 * i, static_cast<size_t>(left < 8 ? left : 8));
    sum += digest_word(word, i);
  }
  return sum;
}

}  // namespace zoetrope
