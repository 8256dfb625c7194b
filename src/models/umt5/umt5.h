// UMT5 encoder (Chung et al., "UniMax", arXiv:2304.09151; T5 v1.1 blocks with a relative-position table in every one):
// token ids -> hidden states, over the real tokens only. Axes: n tokens, N heads, D head width, C model width.
// Rounding: the residual stream, statistics, logits, bias and softmax are fp32; what enters a product is of the compute
// type. The reference in bf16 also rounds the stream, q k^T and the normalised x before its weight; we do not.
// With tensor parallelism a rank holds N' heads and a part of the feed-forward, and all tokens; the embedding table is
// whole on each. Two all_reduce of [n, C] fp32 a layer.
#pragma once
#include <span>
#include <string>

#include "base/json.h"
#include "nn/tensor_parallel.h"

namespace zoetrope {

struct Umt5Config {
  int64_t layers = 24, heads = 64, width = 64;  // width of a head
  int64_t dim = 4096, ffn_dim = 10240, vocabulary = 256384;
  float eps = 1e-6f;

  int64_t inner() const { return heads * width; }
};

// Released umt5-xxl values where keys are missing. Error(unsupported): another feed-forward, other position buckets.
Umt5Config umt5_config(const Json& json);

// Column of the position table for a key `distance` tokens after its query (32 buckets, 128 the longest told apart).
int umt5_bucket(int64_t distance);

class Umt5Encoder {
 public:
  // `tp` (null: one rank) must outlive the encoder; its ranks make the same calls and each gets the whole result.
  Umt5Encoder(Ctx& c, const Umt5Config& config, nn::Parameters& parameters, DType compute,
              const std::string& component = "text_encoder", Comm* tp = nullptr);

  // Reads the weights; the constructor has done it once. For after c.drop_weights(component).
  void read(Ctx& c, nn::Parameters& parameters);

  const Umt5Config& config() const { return config_; }
  const std::vector<nn::Entry>& entries() const { return entries_; }
  int64_t vocabulary() const { return embedding_.dim(0); }  // rows of the table, which may be more than the config says

  // ids include the end token. -> [n, C] of the compute type, in scratch.
  Tensor forward(Ctx& c, std::span<const int32_t> ids) const;
  // What the video transformer is given: those rows, then zeros up to `rows`. -> [rows, C], in the request region.
  Tensor encode(Ctx& c, std::span<const int32_t> ids, int64_t rows = 512) const;

 private:
  struct Block {
    Tensor norm1, norm2;          // [C]
    nn::Linear qkv, out;          // [3N'D, C] stacked, [C, N'D]
    std::vector<float> position;  // [32, N']
    nn::Linear gate, up, down;    // wi_0, wi_1, wo
  };
  int64_t heads() const { return tp_.own(config_.heads); }  // N'
  void load(nn::Loader& from);
  Tensor position_bias(Ctx& c, int64_t tokens) const;
  Tensor heads_of(Ctx& c, size_t i, const Tensor& h, const Tensor& bias) const;
  void attend(Ctx& c, size_t i, const Tensor& h, const Tensor& bias) const;
  void feed_forward(Ctx& c, size_t i, const Tensor& h) const;

  Umt5Config config_;
  DType compute_;
  std::string component_;
  mutable nn::TensorParallel tp_;  // takes a slot of the exchange region when a longer prompt comes
  Tensor embedding_, norm_;
  std::vector<Block> blocks_;
  std::vector<nn::Entry> entries_;
};

}  // namespace zoetrope
