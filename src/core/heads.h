// The one strided view: attention's operands where a projection or an exchange left them (design 3a).
#pragma once
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace zoetrope {

// Element (s, n, d) lies at buf[at + s*row + n*width + d], in elements. tokens S, heads N, width D.
struct Heads {
  Tensor buf;
  int64_t at = 0, row = 0;
  int64_t tokens = 0, heads = 0, width = 0;

  template <class T>
  T* token(int64_t s) const {
    return buf.data<T>() + at + s * row;
  }
  int64_t size() const { return tokens * heads * width; }
  int64_t bytes() const { return size() * bytes_of(buf.dtype()); }
  DType dtype() const { return buf.dtype(); }
};

// x[S, N*D] or x[S, N, D] seen as heads of the given width.
Heads as_heads(const Tensor& x, int64_t width);
// Columns [column, column + heads*width) of x[S, C], for a packed projection.
Heads as_heads(const Tensor& x, int64_t column, int64_t heads, int64_t width);
// Tokens [from, to) and heads [first, last) of another view.
Heads slice(const Heads& x, int64_t from, int64_t to);
Heads slice_heads(const Heads& x, int64_t first, int64_t last);

// Places for the heads of one view, which may lie apart: `to` takes its heads [first, first + to.heads). Each head goes
// to one place or more.
struct HeadPart {
  Heads to;
  int64_t first = 0;
};
struct HeadParts {
  std::vector<HeadPart> parts;

  HeadParts(const Heads& whole) : parts{{whole, 0}} {}  // NOLINT: one place for all heads is the common case
  HeadParts(std::vector<HeadPart> several) : parts(std::move(several)) {}

  bool one() const { return parts.size() == 1; }
  DType dtype() const { return parts[0].to.dtype(); }
  int64_t bytes() const;
};

}  // namespace zoetrope
