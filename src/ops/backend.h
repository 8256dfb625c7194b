// The contract of a back end: one virtual per op, outputs last, arguments already checked by the front. A list, not a
// hierarchy: no defaults, no state, no second level, so that a forgotten op is a compile error.
#pragma once
#include "ops/ops.h"

namespace zoetrope {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Traits traits() const = 0;
  virtual std::shared_ptr<std::byte> host_memory(size_t bytes) = 0;  // host.h

  virtual void linear(Ctx& c, Tensor x, Tensor w, Tensor b, Act act, Tensor y) = 0;
  virtual void attention(Ctx& c, Heads q, Heads k, Heads v, AttentionOptions options, Partial out) = 0;
  virtual void merge_attention(Ctx& c, Partial into, Partial part) = 0;

  virtual void rms_norm(Ctx& c, Tensor x, Tensor w, float eps, RowSquares whole, Tensor y) = 0;
  virtual void square_sums(Ctx& c, Heads x, Tensor sums) = 0;
  virtual void layer_norm(Ctx& c, Tensor x, Tensor w, Tensor b, float eps, Tensor y) = 0;
  virtual void modulate(Ctx& c, Tensor x, Modulation m, Tensor y) = 0;
  virtual void norm_modulate(Ctx& c, Tensor x, Modulation m, float eps, Tensor y) = 0;
  virtual void gate_add(Ctx& c, Tensor h, Tensor y, Tensor gate, Tensor rows) = 0;
  virtual void gate_add_norm(Ctx& c, Tensor h, Tensor y, Tensor gate, Tensor rows, NextNorm next, Tensor n) = 0;

  virtual void rope(Ctx& c, Heads x, Rope rope) = 0;
  virtual void norm_rope(Ctx& c, Heads x, Tensor w, float eps, RowSquares whole, Rope rope, bool rotate,
                         HeadParts out) = 0;
  virtual void copy_heads(Ctx& c, Heads from, Heads to) = 0;

  virtual void silu(Ctx& c, Tensor x, Tensor y) = 0;
  virtual void gated_gelu(Ctx& c, Tensor a, Tensor b, Tensor y) = 0;
  virtual void add(Ctx& c, Tensor into, Tensor x) = 0;
  virtual void cast(Ctx& c, Tensor x, Tensor y) = 0;
  virtual void copy(Ctx& c, Tensor from, Tensor to) = 0;
  virtual void fill(Ctx& c, Tensor x, float value) = 0;
  virtual void embedding(Ctx& c, Tensor table, Tensor ids, Tensor y) = 0;
  virtual void timestep_embed(Ctx& c, Tensor t, Tensor y) = 0;
  virtual void value_range(Ctx& c, Tensor x, Tensor y) = 0;

  virtual void patchify(Ctx& c, Tensor x, int64_t ph, int64_t pw, Tensor y) = 0;
  virtual void unpatchify(Ctx& c, Tensor x, int64_t ph, int64_t pw, Tensor y) = 0;
  virtual void affine(Ctx& c, Tensor x, Tensor scale, Tensor shift, Tensor y) = 0;

  virtual void conv(Ctx& c, Tensor x, Tensor w, Tensor b, ConvOptions options, Tensor add, Tensor y) = 0;
  virtual void corner_weights(Ctx& c, Tensor w, Tensor y) = 0;
  virtual void channel_norm(Ctx& c, Tensor x, Tensor gamma, bool silu, Tensor y) = 0;
  virtual void add_channel_norm(Ctx& c, Tensor x, Tensor more, Tensor gamma, bool silu, Tensor y) = 0;
  virtual void interleave_frames(Ctx& c, Tensor x, Tensor y) = 0;
  virtual void to_pixels(Ctx& c, Tensor x, Tensor y) = 0;

  virtual void guide(Ctx& c, Tensor cond, Tensor uncond, Tensor scale, Tensor v) = 0;
  virtual void multistep(Ctx& c, MultistepState state, Tensor v, Tensor k) = 0;
  virtual void guided_multistep(Ctx& c, MultistepState state, Predictions predictions, Tensor k, Tensor bad) = 0;
};

}  // namespace zoetrope
