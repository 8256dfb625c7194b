// A tensor is a view: address, shape, element type. It owns nothing; its bytes belong to a Region and live as long as
// the scope they were taken in. Always contiguous, row-major; a view is an outer-axis slice or another shape.
#pragma once
#include <cassert>
#include <cstddef>
#include <span>

#include "core/dtype.h"
#include "core/shape.h"

namespace zoetrope {

class Tensor {
 public:
  Tensor() = default;  // undefined: "no such tensor", for optional arguments
  Tensor(void* data, const Shape& shape, DType type) : data_(data), shape_(shape), type_(type) {}

  bool defined() const { return data_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int64_t dim(int axis) const { return shape_.dim(axis); }
  int rank() const { return shape_.rank(); }
  int64_t size() const { return shape_.size(); }
  DType dtype() const { return type_; }
  int64_t bytes() const { return size() * bytes_of(type_); }
  void* raw() const { return data_; }

  template <class T>
  T* data() const {
    assert(type_ == dtype_of<T>);
    return static_cast<T*>(data_);
  }
  template <class T>
  std::span<T> span() const {
    return {data<T>(), static_cast<size_t>(size())};
  }

  Tensor rows(int64_t from, int64_t to) const;  // [from, to) of the outermost axis
  Tensor row(int64_t i) const;                  // one of them, that axis dropped
  Tensor view(const Shape& shape) const;        // same elements, another shape

 private:
  void* data_ = nullptr;
  Shape shape_;
  DType type_ = DType::f32;
};

// bytes(x, w, y): what an op reads and writes at least; undefined tensors count nothing.
template <class... Tensors>
int64_t bytes(const Tensors&... tensors) {
  return (int64_t{0} + ... + (tensors.defined() ? tensors.bytes() : 0));
}

}  // namespace zoetrope
