// Extents of a tensor, outermost first. Up to six axes, held in place.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>

namespace zoetrope {

class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);  // refuses negative extents, too many axes, overflow of int64

  int rank() const { return rank_; }
  int64_t size() const;         // number of elements; 1 for rank 0
  int64_t dim(int axis) const;  // negative axes count from the end
  int64_t operator[](int axis) const { return dim(axis); }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  Shape with(int axis, int64_t extent) const;  // a copy with one extent changed

  friend bool operator==(const Shape& a, const Shape& b);
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape);  // [2, 3]

 private:
  int at(int axis) const;

  std::array<int64_t, max_rank> dims_{};
  int rank_ = 0;
};

}  // namespace zoetrope
