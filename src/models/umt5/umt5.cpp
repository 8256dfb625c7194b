#include "models/umt5/umt5.h"

#include "base/error.h"
#include "ops/ops.h"

namespace zoetrope {

Umt5Encoder::Umt5Encoder(Ctx& c, const Umt5Config& config, nn::Parameters& parameters, DType compute,
                         const std::string& component, Comm* tp)
    : config_(config),
      compute_(compute),
      component_(component),
      tp_(c, tp),
      blocks_(static_cast<size_t>(config.layers)) {
  require(tp_.size() <= config.ffn_dim, component_, ": tp ", tp_.size(), " is more than the ", config.ffn_dim,
          " numbers of d_ff");
  read(c, parameters);
}

void Umt5Encoder::read(Ctx& c, nn::Parameters& parameters) {
  nn::Loader loader(c, component_, parameters, compute_);
  load(loader);
  loader.load();
  entries_ = loader.used();
}

void Umt5Encoder::load(nn::Loader& from) {
  const int64_t dim = config_.dim, inner = config_.inner(), ffn = config_.ffn_dim, unit = tp_.unit_of(ffn);
  const nn::Slice own_heads = tp_.outputs(inner, config_.width), own_ffn = tp_.outputs(ffn, unit);
  const nn::Slice from_heads = tp_.inputs(inner, config_.width), from_ffn = tp_.inputs(ffn, unit);
  from.embedding(embedding_, {"shared.weight", "encoder.embed_tokens.weight"}, config_.vocabulary, dim);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    Block& block = blocks_[i];
    const std::string layer = cat("encoder.block.", i, ".layer."), self = layer + "0.SelfAttention.",
                      dense = layer + "1.DenseReluDense.";
    nn::load_stacked(from, block.qkv, {self + "q", self + "k", self + "v"}, inner, dim, nn::Bias::no, own_heads);
    nn::load(from, block.out, self + "o", dim, inner, nn::Bias::no, from_heads);
    from.host(block.position, self + "relative_attention_bias.weight", {32, config_.heads},
              tp_.inputs(config_.heads, 1));
    from.tensor(block.norm1, layer + "0.layer_norm.weight", {dim});
    nn::load(from, block.gate, dense + "wi_0", ffn, dim, nn::Bias::no, own_ffn);
    nn::load(from, block.up, dense + "wi_1", ffn, dim, nn::Bias::no, own_ffn);
    nn::load(from, block.down, dense + "wo", dim, ffn, nn::Bias::no, from_ffn);
    from.tensor(block.norm2, layer + "1.layer_norm.weight", {dim});
  }
  from.tensor(norm_, "encoder.final_layer_norm.weight", {dim});
}

// [L, N', 2n - 1]: for each block and head the bias of a key j tokens after its query, j = -(n-1) .. n-1.
Tensor Umt5Encoder::position_bias(Ctx& c, int64_t tokens) const {
  const Tensor bias = c.empty({config_.layers, heads(), 2 * tokens - 1}, DType::f32);
  if (c.dry()) return bias;
  std::vector<float> values;
  values.reserve(static_cast<size_t>(bias.size()));
  for (const Block& block : blocks_)
    for (int64_t head = 0; head < heads(); ++head)
      for (int64_t j = 1 - tokens; j < tokens; ++j)
        values.push_back(block.position[static_cast<size_t>(umt5_bucket(j) * heads() + head)]);
  c.upload(std::span<const float>(values), bias);
  return bias;
}

Tensor Umt5Encoder::forward(Ctx& c, std::span<const int32_t> ids) const {
  const auto n = static_cast<int64_t>(ids.size());
  require(n > 0, component_, ": no tokens; even an empty prompt has its end token");
  for (const int32_t id : ids)
    require(id >= 0 && id < vocabulary(), component_, ": token id ", id, " is outside the embedding table of ",
            vocabulary(), " rows");
  const Tensor out = c.empty({n, config_.dim}, compute_);
  Scope scope(c.scratch());
  const Tensor tokens = c.empty({n}, DType::i32);
  c.upload(ids, tokens);
  const Tensor h = cast(c, embedding(c, embedding_, tokens), DType::f32);  // [n, C]
  c.tap("embedding", h);
  const Tensor bias = position_bias(c, n);
  tp_.reserve(h.size());
  for (size_t i = 0; i < blocks_.size(); ++i) {
    attend(c, i, h, bias.row(static_cast<int64_t>(i)));
    feed_forward(c, i, h);
    c.tap(cat("block.", i), h);
  }
  copy(c, rms_norm(c, h, norm_, config_.eps, compute_), out);
  return out;
}

// This rank's heads of block i [n, N'D]; of more ranks than heads the last have none.
Tensor Umt5Encoder::heads_of(Ctx& c, size_t i, const Tensor& h, const Tensor& bias) const {
  const int64_t inner = heads() * config_.width;
  if (inner == 0) return c.empty({h.dim(0), 0}, compute_);
  const Block& block = blocks_[i];
  const Tensor qkv = block.qkv(c, rms_norm(c, h, block.norm1, config_.eps, compute_));  // [n, 3N'D]
  const auto part = [&](int64_t p) { return as_heads(qkv, p * inner, heads(), config_.width); };
  return attention(c, part(0), part(1), part(2), {.scale = 1, .relative_bias = bias}).o.view({h.dim(0), inner});
}

void Umt5Encoder::attend(Ctx& c, size_t i, const Tensor& h, const Tensor& bias) const {
  Scope scope(c.scratch());
  const Tensor y = tp_.sum(c, blocks_[i].out, heads_of(c, i, h, bias));
  c.tap(cat("block.", i, ".attn"), y);
  add(c, h, y);
}

void Umt5Encoder::feed_forward(Ctx& c, size_t i, const Tensor& h) const {
  Scope scope(c.scratch());
  const Block& block = blocks_[i];
  const Tensor n = rms_norm(c, h, block.norm2, config_.eps, compute_);
  const Tensor y = tp_.sum(c, block.down, gated_gelu(c, block.gate(c, n), block.up(c, n)));
  c.tap(cat("block.", i, ".ffn"), y);
  add(c, h, y);
}

Tensor Umt5Encoder::encode(Ctx& c, std::span<const int32_t> ids, int64_t rows) const {
  const auto n = static_cast<int64_t>(ids.size());
  require(n <= rows, component_, ": ", n, " tokens, at most ", rows, " fit; cut the prompt's ids first");
  const Tensor text = c.empty({rows, config_.dim}, compute_, c.request());
  Scope scope(c.scratch());
  copy(c, forward(c, ids), text.rows(0, n));
  fill(c, text.rows(n, rows), 0);
  return text;
}

}  // namespace zoetrope
