// A place in the exchange region that one message after another uses. The region is registered with communicators
// before any capture, so whoever sends reserves its slots ahead and never takes one while it runs.
#pragma once
#include "core/region.h"
#include "core/tensor.h"

namespace zoetrope {

class Slot {
 public:
  Slot() = default;  // holds nothing, for ever
  explicit Slot(Region& exchange) : exchange_(&exchange) {}

  // Keeps what it has if that is enough. A place that was too small stays taken until the region is rewound: reserve
  // for the largest shape first.
  void reserve(int64_t bytes);
  Tensor view(const Shape& shape, DType type) const;  // of its first bytes; refuses more than was reserved

 private:
  Region* exchange_ = nullptr;
  Tensor bytes_;
};

}  // namespace zoetrope
