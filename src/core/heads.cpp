#include "core/heads.h"

#include "base/error.h"

namespace zoetrope {

Heads as_heads(const Tensor& x, int64_t width) {
  const int64_t tokens = x.dim(0), columns = tokens ? x.size() / tokens : x.dim(-1);
  require(width > 0 && columns % width == 0, "as_heads: ", columns, " columns are not a multiple of width ", width);
  return {x, 0, columns, tokens, columns / width, width};
}

Heads as_heads(const Tensor& x, int64_t column, int64_t heads, int64_t width) {
  require(x.rank() == 2 && column >= 0 && column + heads * width <= x.dim(1), "as_heads: columns [", column, ", ",
          column + heads * width, ") of ", x.shape());
  return {x, column, x.dim(1), x.dim(0), heads, width};
}

Heads slice(const Heads& x, int64_t from, int64_t to) {
  require(from >= 0 && from <= to && to <= x.tokens, "slice: tokens [", from, ", ", to, ") of ", x.tokens);
  return {x.buf, x.at + from * x.row, x.row, to - from, x.heads, x.width};
}

Heads slice_heads(const Heads& x, int64_t first, int64_t last) {
  require(first >= 0 && first <= last && last <= x.heads, "slice: heads [", first, ", ", last, ") of ", x.heads);
  return {x.buf, x.at + first * x.width, x.row, x.tokens, last - first, x.width};
}

int64_t HeadParts::bytes() const {
  int64_t all = 0;
  for (const HeadPart& part : parts) all += part.to.bytes();
  return all;
}

}  // namespace zoetrope
