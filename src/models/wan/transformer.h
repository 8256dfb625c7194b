// The Wan 2.1 / 2.2 video transformer: a DiT with adaLN modulation from the timestep, self-attention with three-axis
// rotary embedding, cross-attention to text, and a feed-forward, as the released checkpoints define it.
// Axes: S tokens = T * H/2 * W/2, N heads, D head width, C = N*D, L layers. docs/numerics.md lists the rounding points;
// in short: residual stream, modulation and time embedder fp32, the operands of products in the compute type.
//
// On a mesh the ranks of the sequence group hold S' = ceil(S/P) tokens each, from the patches to the velocity's: the
// strategy's collectives, and one all_gather at the end. The ranks of the tp group hold N' = N/T heads and a part of
// the feed-forward, of the same tokens; C' = N'*D. A tap sees this rank's tokens, layout padding last, and its heads.
// docs/parallelism.md counts what is sent.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mesh/shard.h"
#include "models/wan/config.h"
#include "models/wan/exchange.h"
#include "nn/linear.h"
#include "nn/rope.h"

namespace zoetrope {

// One row a step, so that a replayed step only picks a row.
struct StepTable {
  Tensor temb;   // [steps, C] fp32
  Tensor tproj;  // [steps, 6, C] fp32: shift, scale, gate of self-attention, then of the feed-forward
};

// What depends on the prompt and the expert alone.
struct Text {
  Tensor kv;         // [L, 512, 2C']: normed keys and values of each block's cross-attention, of this rank's heads
  int64_t real = 0;  // rows of the prompt; the others are all alike, and attended too
};

class WanTransformer {
 public:
  // Takes memory in c.weights(component). `mesh` null: one rank; else it must outlive the model, and all of its ranks
  // that share a request make the same calls with the same arguments. `attention` null: that of the mesh. Slots of
  // c.exchange() are taken by forward, as large as its latents need: the largest shape should be the first.
  WanTransformer(Ctx& c, const WanConfig& config, nn::Parameters& parameters, DType compute,
                 const std::string& component = "transformer", const Mesh* mesh = nullptr,
                 std::unique_ptr<attn::Attention> attention = nullptr);
  // On the mesh of an exchange that others use, too, and never at the same time; it must outlive the model.
  WanTransformer(Ctx& c, const WanConfig& config, nn::Parameters& parameters, DType compute,
                 const std::string& component, WanExchange& exchange);

  const WanConfig& config() const { return config_; }
  const std::vector<nn::Entry>& entries() const { return entries_; }  // of the checkpoint

  // Results lie in the request region. Timesteps are the scheduler's, 0 .. 1000.
  StepTable steps(Ctx& c, std::span<const float> timesteps) const;
  // context: [512, text_dim], zero from row real_rows on.
  Text encode_text(Ctx& c, const Tensor& context, int64_t real_rows) const;

  // latents [T, H, W, C_in] fp32 -> velocity [T, H, W, C_out] fp32, in scratch. H and W are even. Every rank gives the
  // whole latents and gets the whole velocity. `passed` hears of each block whose work was issued, on the stream.
  using Passed = std::function<void(size_t block)>;
  Tensor forward(Ctx& c, const Tensor& latents, const StepTable& steps, int64_t step, const Text& text,
                 const Passed& passed = {}) const;

 private:
  friend class WanRefill;

  struct Block {
    Tensor table;              // [6, C] fp32, added to tproj
    nn::Linear qkv, out1;      // self-attention, [3C', C] stacked, [C, C']
    Tensor norm_q1, norm_k1;   // [C']
    Tensor norm2_w, norm2_b;   // [C] fp32: the affine norm before cross-attention
    nn::Linear q2, kv2, out2;  // cross-attention, [C', C], [2C', C], [C, C']
    Tensor norm_q2, norm_k2;   // [C']
    nn::Linear up, down;       // feed-forward: this rank's part of its width
  };
  struct Pass;  // one forward: residual stream, this step's rows, rotary tables

  WanTransformer(Ctx& c, const WanConfig& config, nn::Parameters& parameters, DType compute,
                 const std::string& component, std::unique_ptr<WanExchange> own, WanExchange* exchange);
  nn::Loader loader(Ctx& c, nn::Parameters& parameters, const std::string& component) const;
  void load(nn::Loader& from);
  void load_block(nn::Loader& from, Block& block, const std::string& prefix) const;

  const Mesh* mesh() const { return exchange_->mesh; }
  nn::TensorParallel& tp() const { return exchange_->tp; }
  int64_t heads() const { return tp().own(config_.heads); }  // N'
  int sequence_ranks() const { return mesh() ? mesh()->sequence().size() : 1; }
  int64_t head_columns() const { return config_.patch_rows * config_.patch_columns * config_.out_channels; }
  attn::Geometry geometry(const Pass& pass) const;
  Tensor patches(Ctx& c, const Tensor& latents, const Pass& pass) const;
  void reserve(const Pass& pass) const;
  void head(Ctx& c, const Tensor& latents, const Pass& pass) const;
  void fill_table(Ctx& c, const Pass& pass) const;
  void run_block(Ctx& c, size_t i, const Pass& pass) const;
  void self_attention(Ctx& c, size_t i, const Pass& pass) const;
  void cross_attention(Ctx& c, size_t i, const Pass& pass) const;
  void feed_forward(Ctx& c, size_t i, const Pass& pass) const;
  void tail(Ctx& c, const Tensor& velocity, const Pass& pass) const;

  WanConfig config_;
  DType compute_;
  std::string component_;
  std::unique_ptr<WanExchange> own_;  // null where others use it, too
  WanExchange* exchange_;             // it takes slots when a larger shape comes
  nn::Linear patch_, head_;
  nn::Mlp time_, text_;
  nn::Linear time_proj_;
  Tensor table_;  // [2, C] fp32: shift and scale of the output, added to temb
  std::vector<Block> blocks_;
  nn::RopeTables rope_;
  std::vector<nn::Entry> entries_;
  std::vector<size_t> declared_;  // tensors before each block, and before what comes behind them
};

}  // namespace zoetrope
