#include "core/shape.h"

#include <algorithm>
#include <ostream>

#include "base/error.h"

namespace zoetrope {

Shape::Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  require(dims.size() <= max_rank, "shape: ", dims.size(), " axes, at most ", max_rank, " are supported");
  int64_t total = 1;
  for (int i = 0; i < rank_; ++i) {
    require(dims[i] >= 0, "shape: extent ", dims[i], " is negative");
    require(!__builtin_mul_overflow(total, std::max<int64_t>(dims[i], 1), &total), "shape: too many elements");
    dims_[i] = dims[i];
  }
}

int64_t Shape::size() const {
  int64_t total = 1;
  for (const int64_t extent : dims()) total *= extent;
  return total;
}

int Shape::at(int axis) const {
  const int index = axis < 0 ? axis + rank_ : axis;
  require(index >= 0 && index < rank_, "shape: axis ", axis, " of ", *this);
  return index;
}

int64_t Shape::dim(int axis) const { return dims_[at(axis)]; }

Shape Shape::with(int axis, int64_t extent) const {
  Shape copy = *this;
  copy.dims_[at(axis)] = extent;
  return Shape(copy.dims());
}

bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a.dims(), b.dims()); }

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int i = 0; i < shape.rank_; ++i) out << (i ? ", " : "") << shape.dims_[i];
  return out << ']';
}

}  // namespace zoetrope
