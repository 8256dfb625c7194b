#include "base/deadline.h"

#include <algorithm>

namespace zoetrope {

Deadline::Clock::duration Deadline::left() const {
  if (endless()) return Clock::duration::max();
  return std::max(Clock::duration::zero(), at_ - Clock::now());
}

}  // namespace zoetrope
