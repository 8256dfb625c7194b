// Looking at results before more is built on them: one that is not finite ends the job and says where it first
// appeared.
#pragma once
#include <string>

#include "core/ctx.h"

namespace zoetrope {

struct Range {
  float low = 0, high = 0;
  float bad = 0;  // how many are not finite
};

Range range_of(Ctx& c, const Tensor& x);

// AgreedError unless `bad` is 0: every rank of the world asks with the same number.
void require_finite(float bad, const std::string& what);

}  // namespace zoetrope
