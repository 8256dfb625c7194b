#include "comm/slot.h"

#include "base/error.h"

namespace zoetrope {

void Slot::reserve(int64_t bytes) {
  if (bytes_.defined() && bytes <= bytes_.bytes()) return;
  bytes_ = Tensor(exchange_->take(static_cast<size_t>(bytes)), {bytes}, DType::u8);
}

Tensor Slot::view(const Shape& shape, DType type) const {
  const int64_t held = bytes_.defined() ? bytes_.bytes() : 0, needed = shape.size() * bytes_of(type);
  require(needed <= held, "exchange: ", shape, " ", type, " needs a slot of ", needed, " bytes, ", held,
          " were reserved; reserve() comes first");
  return {bytes_.raw(), shape, type};
}

}  // namespace zoetrope
