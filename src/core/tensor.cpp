#include "core/tensor.h"

#include "base/error.h"

namespace zoetrope {

Tensor Tensor::rows(int64_t from, int64_t to) const {
  require(rank() > 0 && from >= 0 && from <= to && to <= dim(0), "rows: [", from, ", ", to, ") of ", shape_);
  const int64_t stride = dim(0) == 0 ? 0 : bytes() / dim(0);
  return {static_cast<std::byte*>(data_) + from * stride, shape_.with(0, to - from), type_};
}

Tensor Tensor::row(int64_t i) const { return rows(i, i + 1).view(Shape(shape_.dims().subspan(1))); }

Tensor Tensor::view(const Shape& shape) const {
  require(shape.size() == size(), "view: ", shape, " does not hold the elements of ", shape_);
  return {data_, shape, type_};
}

}  // namespace zoetrope
