#include "pipeline/finite.h"

#include "comm/agree.h"
#include "ops/ops.h"

namespace zoetrope {

Range range_of(Ctx& c, const Tensor& x) {
  Scope scope(c.scratch());
  const auto range = c.fetch<float>(value_range(c, x), 0.0f);
  return {range[0], range[1], range[2]};
}

void require_finite(float bad, const std::string& what) {
  if (bad > 0)
    throw AgreedError(Code::device, cat(what, " holds ", static_cast<int64_t>(bad),
                                        " values that are not finite; the video would be black"));
}

}  // namespace zoetrope
