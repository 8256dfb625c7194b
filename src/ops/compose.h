// The plain form of each fused op, in terms of the others: portable path and test oracle in one.
#pragma once
#include "ops/ops.h"

namespace zoetrope::compose {

void norm_modulate(Ctx& c, const Tensor& x, const Modulation& m, float eps, const Tensor& y);
void gate_add_norm(Ctx& c, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows,
                   const NextNorm& next, const Tensor& n);
void norm_rope(Ctx& c, const Heads& x, const Tensor& w, float eps, const Rope* rope, const HeadParts& out,
               const RowSquares& whole);

void add_channel_norm(Ctx& c, const Tensor& x, const Tensor& more, const Tensor& gamma, bool silu, const Tensor& y);

void guided_multistep(Ctx& c, const MultistepState& state, const Predictions& predictions, const Tensor& k,
                      const Tensor& bad);

}  // namespace zoetrope::compose
