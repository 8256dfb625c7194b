#include "ops/compose.h"

namespace zoetrope::compose {

void norm_modulate(Ctx& c, const Tensor& x, const Modulation& m, float eps, const Tensor& y) {
  Scope scope(c.scratch());
  copy(c, modulate(c, layer_norm(c, x, {}, {}, eps, DType::f32), m, y.dtype()), y);
}

void gate_add_norm(Ctx& c, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows,
                   const NextNorm& next, const Tensor& n) {
  Scope scope(c.scratch());
  gate_add(c, h, y, gate, rows);
  if (next.modulated()) return norm_modulate(c, h, next.m, next.eps, n);
  copy(c, layer_norm(c, h, next.w, next.b, next.eps, n.dtype()), n);
}

void norm_rope(Ctx& c, const Heads& x, const Tensor& w, float eps, const Rope* rotary, const HeadParts& out,
               const RowSquares& whole) {
  Scope scope(c.scratch());
  const Tensor packed = c.empty({x.tokens, x.heads * x.width}, x.dtype());  // [S, N*D]
  copy_heads(c, x, as_heads(packed, x.width));
  const bool together = w.size() == x.heads * x.width;
  const Tensor rows = together ? packed : packed.view({x.tokens * x.heads, x.width});
  const Tensor normed = rms_norm(c, rows, w, eps, out.dtype(), whole).view({x.tokens, x.heads, x.width});
  const Heads whole_token = as_heads(normed, x.width);
  if (rotary) rope(c, whole_token, *rotary);
  copy_heads(c, whole_token, out);
}

void add_channel_norm(Ctx& c, const Tensor& x, const Tensor& more, const Tensor& gamma, bool silu, const Tensor& y) {
  add(c, x, more);
  channel_norm(c, x, gamma, silu, y);
}

void guided_multistep(Ctx& c, const MultistepState& state, const Predictions& p, const Tensor& k, const Tensor& bad) {
  Scope scope(c.scratch());
  Tensor v = p.guided() ? guide(c, p.cond, p.uncond, p.scale) : p.cond;
  if (v.dtype() != DType::f32) v = cast(c, v, DType::f32);
  add(c, bad, value_range(c, v).rows(2, 3));
  multistep(c, state, v, k);
}

}  // namespace zoetrope::compose
