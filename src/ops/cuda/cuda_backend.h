// The class behind make_cuda_backend(). One file per op or family of ops; only they include this.
#pragma once
#include <memory>

#include "ops/cuda/backend.h"
#include "ops/cuda/dnn.h"
#include "ops/cuda/driver.h"
#include "ops/cuda/products.h"
#include "ops/cuda/slots.h"
#include "ops/cuda/tuning.h"

namespace zoetrope::cuda {

// wide_attention.cpp: whether it takes such a call
bool is_wide(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options);

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device);
  Traits traits() const override { return cuda_traits(facts_.capability); }
  std::shared_ptr<std::byte> host_memory(size_t bytes) override;
  int device() const { return device_; }
  const Driver& driver() const { return driver_; }
  const CudaFacts& facts() const { return facts_; }
  Tuning& tuning() { return tuning_; }
  std::vector<std::string> plans() const;

  // linear.cpp, attention.cpp, conv.cpp
  void linear(Ctx& c, Tensor x, Tensor w, Tensor b, Act act, Tensor y) override;
  void attention(Ctx& c, Heads q, Heads k, Heads v, AttentionOptions options, Partial out) override;
  void conv(Ctx& c, Tensor x, Tensor w, Tensor b, ConvOptions options, Tensor add, Tensor y) override;

  // flat.cpp, and a kernel file each
  void merge_attention(Ctx& c, Partial into, Partial part) override;
  void rms_norm(Ctx& c, Tensor x, Tensor w, float eps, RowSquares whole, Tensor y) override;
  void square_sums(Ctx& c, Heads x, Tensor sums) override;
  void layer_norm(Ctx& c, Tensor x, Tensor w, Tensor b, float eps, Tensor y) override;
  void modulate(Ctx& c, Tensor x, Modulation m, Tensor y) override;
  void norm_modulate(Ctx& c, Tensor x, Modulation m, float eps, Tensor y) override;
  void gate_add(Ctx& c, Tensor h, Tensor y, Tensor gate, Tensor rows) override;
  void gate_add_norm(Ctx& c, Tensor h, Tensor y, Tensor gate, Tensor rows, NextNorm next, Tensor n) override;
  void channel_norm(Ctx& c, Tensor x, Tensor gamma, bool silu, Tensor y) override;
  void add_channel_norm(Ctx& c, Tensor x, Tensor more, Tensor gamma, bool silu, Tensor y) override;
  void rope(Ctx& c, Heads x, Rope rope) override;
  void norm_rope(Ctx& c, Heads x, Tensor w, float eps, RowSquares whole, Rope rope, bool rotate,
                 HeadParts out) override;
  void copy_heads(Ctx& c, Heads from, Heads to) override;
  void silu(Ctx& c, Tensor x, Tensor y) override;
  void gated_gelu(Ctx& c, Tensor a, Tensor b, Tensor y) override;
  void add(Ctx& c, Tensor into, Tensor x) override;
  void cast(Ctx& c, Tensor x, Tensor y) override;
  void copy(Ctx& c, Tensor from, Tensor to) override;
  void fill(Ctx& c, Tensor x, float value) override;
  void affine(Ctx& c, Tensor x, Tensor scale, Tensor shift, Tensor y) override;
  void to_pixels(Ctx& c, Tensor x, Tensor y) override;
  void guide(Ctx& c, Tensor cond, Tensor uncond, Tensor scale, Tensor v) override;
  void multistep(Ctx& c, MultistepState state, Tensor v, Tensor k) override;
  void guided_multistep(Ctx& c, MultistepState state, Predictions predictions, Tensor k, Tensor bad) override;
  void embedding(Ctx& c, Tensor table, Tensor ids, Tensor y) override;
  void timestep_embed(Ctx& c, Tensor t, Tensor y) override;
  void value_range(Ctx& c, Tensor x, Tensor y) override;
  void patchify(Ctx& c, Tensor x, int64_t ph, int64_t pw, Tensor y) override;
  void unpatchify(Ctx& c, Tensor x, int64_t ph, int64_t pw, Tensor y) override;
  void interleave_frames(Ctx& c, Tensor x, Tensor y) override;
  void corner_weights(Ctx& c, Tensor w, Tensor y) override;

 private:
  void wide_attention(cudaStream_t stream, const Heads& q, const Heads& k, const Heads& v, float scale, int64_t keys,
                      const Partial& out, std::byte* work);

  int device_;
  CudaFacts facts_;
  Driver driver_;
  bool hopper_;  // compute capability 9.0, and code for it
  Slots slots_;
  Tuning tuning_;
  Products products_{tuning_};
  std::unique_ptr<Dnn> dnn_;
};

}  // namespace zoetrope::cuda
