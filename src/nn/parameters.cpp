#include "nn/parameters.h"

#include "base/error.h"

namespace zoetrope::nn {

Shape Slice::of(const Shape& whole) const {
  if (axis == 0 && from == 0 && to < 0) return whole;
  require((axis == 0 || axis == 1) && axis < whole.rank(), "slice: axis ", axis, " of ", whole);
  const int64_t end = to < 0 ? whole[axis] : to;
  require(from >= 0 && from <= end && end <= whole[axis], "slice: [", from, ", ", end, ") of axis ", axis, " of ",
          whole);
  return whole.with(axis, end - from);
}

int64_t parameter_count(const std::vector<Entry>& entries) {
  int64_t total = 0;
  for (const Entry& entry : entries) total += entry.shape.size();
  return total;
}

}  // namespace zoetrope::nn
