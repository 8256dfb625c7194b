// How stored elements come to lie in a weight. Apart from core/intake.h for nvcc's sake.
#pragma once
#include <cstdint>

namespace zoetrope {

// How the elements of a piece come to lie: [rows, inner, kernel], rows `row` elements apart, becomes
// [rows, kernel, inner] with `pitch` elements from one run of `inner` to the next; what lies between is left alone.
struct Unpack {
  int64_t rows = 1, inner = 0, kernel = 1, row = 0, pitch = 0;

  static Unpack run(int64_t elements) { return {1, elements, 1, elements, elements}; }
  bool contiguous() const { return kernel == 1 && (rows == 1 || (row == inner && pitch == inner)); }
  int64_t elements() const { return rows * inner * kernel; }
  int64_t stored() const { return (rows - 1) * row + inner * kernel; }  // elements from the first to the last
};

}  // namespace zoetrope
