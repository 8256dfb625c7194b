// to[c][r] = from[r][c] as fp32, in 4 x 4 blocks of four-wide vectors (which every x86-64 has).
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/cpu/vec.h"

namespace zoetrope {

namespace four {
typedef float Floats4 __attribute__((vector_size(16)));
typedef uint32_t Words __attribute__((vector_size(16)));
typedef uint16_t Halves __attribute__((vector_size(8)));

inline void read(const float* from, Floats4& to) { std::memcpy(&to, from, sizeof to); }
inline void read(const bf16* from, Floats4& to) {
  Halves halves;
  std::memcpy(&halves, from, sizeof halves);
  const Words words = __builtin_convertvector(halves, Words) << 16;
  std::memcpy(&to, &words, sizeof to);
}

template <class X>
inline void transpose(const X* from, int64_t stride, float* to, int64_t to_stride) {
  Floats4 a, b, c, d;
  read(from, a), read(from + stride, b), read(from + 2 * stride, c), read(from + 3 * stride, d);
  const Floats4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Floats4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Floats4 columns[] = {
      __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5), __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7),
      __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5), __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7)};
  for (int64_t i = 0; i < 4; ++i) std::memcpy(to + i * to_stride, &columns[i], sizeof columns[i]);
}
}  // namespace four

// rows x columns of `from`; both strides in elements.
template <class X>
void transpose(const X* from, int64_t stride, int64_t rows, int64_t columns, float* to, int64_t to_stride) {
  constexpr int64_t block = 16;  // rows at a time: few enough to stream from, and what is written are whole lines
  const int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
  for (int64_t r0 = 0; r0 < whole_rows; r0 += block)
    for (int64_t c = 0; c < whole_columns; c += 4)
      for (int64_t r = r0; r < std::min(r0 + block, whole_rows); r += 4)
        four::transpose(from + r * stride + c, stride, to + c * to_stride + r, to_stride);
  for (int64_t r = 0; r < rows; ++r)  // the ragged edges
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      to[c * to_stride + r] = load(from[r * stride + c]);
}

}  // namespace zoetrope
