// A row for each step of a request.
#pragma once
#include "base/rounding.h"
#include "core/ctx.h"

namespace zoetrope {

// shape: [steps, ...], in the request region. Takes the room of a multiple of 64 steps: requests of some steps more or
// less need the same pages, and find what lies behind in the same place.
inline Tensor step_rows(Ctx& c, const Shape& shape, DType type) {
  return c.empty(shape.with(0, round_up(shape[0], 64)), type, c.request()).rows(0, shape[0]);
}

}  // namespace zoetrope
