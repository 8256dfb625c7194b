// The plain form of each fused op, in terms of the others: portable path and test oracle in one.
#pragma once
#include "ops/ops.h"

namespace zoetrope::compose {

Tensor norm_modulate(Ctx& c, const Tensor& x, const Modulation& m, float eps, DType out);
void norm_rope(Ctx& c, const Heads& x, const Tensor& w, float eps, const Rope* rope, const Heads& out,
               const RowSquares& whole);

}  // namespace zoetrope::compose
