// One prediction. Everything that changes between steps (two table rows) is copied to a fixed place before the segments
// start, so that a recorded segment can be replayed; segments write to tensors that were taken before them.
#include "base/error.h"
#include "models/wan/self_source.h"
#include "models/wan/transformer.h"

namespace zoetrope {

struct WanTransformer::Pass {
  int64_t frames, rows, columns;  // of the latents
  int64_t tokens;                 // S
  TokenShard shard;               // this rank's share of them, S' = shard.slot
  Tensor h;                       // [S', C] fp32 residual stream
  Tensor n;                       // [S', C] its norm: the input of the next branch
  Tensor temb, tproj;             // [C], [6, C] fp32: this step's
  Tensor table;                   // [6 L + 2, C] fp32: shift, scale and gate of branch after branch
  Rope rope;
  const Text& text;

  // Of the modulated branches in their order: self-attention and feed-forward of each block, then the output, which has
  // no gate.
  Modulation modulation(size_t branch) const { return {row(branch, 0), row(branch, 1), {}}; }
  Tensor gate(size_t branch) const { return row(branch, 2); }

 private:
  Tensor row(size_t branch, int64_t i) const {
    const int64_t at = 3 * static_cast<int64_t>(branch) + i;
    return table.rows(at, at + 1);
  }
};

namespace {

Tensor flat(const Tensor& o) { return o.view({o.dim(0), o.dim(1) * o.dim(2)}); }  // [S, N, D] -> [S, N*D]

void require_latents(const Tensor& x, const WanConfig& config, const std::string& who) {
  require(x.rank() == 4 && x.dtype() == DType::f32 && x.dim(3) == config.in_channels, who, ": latents are ", x.shape(),
          " ", x.dtype(), ", should be [frames, rows, columns, ", config.in_channels, "] fp32");
  require(x.dim(1) % config.patch_rows == 0 && x.dim(2) % config.patch_columns == 0, who, ": latents of ", x.dim(1),
          "x", x.dim(2), " do not divide into patches of ", config.patch_rows, "x", config.patch_columns);
}

}  // namespace

Tensor WanTransformer::forward(Ctx& c, const Tensor& latents, const StepTable& steps, int64_t step, const Text& text,
                               const Passed& passed) const {
  require_latents(latents, config_, component_);
  const int64_t frames = latents.dim(0), rows = latents.dim(1), columns = latents.dim(2), dim = config_.dim();
  const int64_t tokens = config_.tokens(frames, rows, columns);
  const TokenShard shard = shard_tokens(tokens, sequence_ranks(), mesh() ? mesh()->sequence_index() : 0);
  const Tensor velocity = c.empty({frames, rows, columns, config_.out_channels}, DType::f32);
  Scope scope(c.scratch());
  Pass pass{frames,
            rows,
            columns,
            tokens,
            shard,
            c.empty({shard.slot, dim}, DType::f32),
            c.empty({shard.slot, dim}, compute_),
            c.empty({dim}, DType::f32),
            c.empty({6, dim}, DType::f32),
            c.empty({6 * config_.layers + 2, dim}, DType::f32),
            rope_.grid(frames, rows / config_.patch_rows, columns / config_.patch_columns),
            text};
  pass.rope.offset = shard.first;
  copy(c, steps.temb.row(step), pass.temb);
  copy(c, steps.tproj.row(step), pass.tproj);
  c.tap("temb", pass.temb);
  c.tap("tproj", pass.tproj);

  reserve(pass);

  // A recording holds addresses: they, the shape, the mesh and the weights are what a replay must share. Exchange slots
  // move only when some more are taken.
  const auto key = [&](const char* part) {
    return cat(component_, '.', part, ' ', latents.shape(), ' ', compute_, ' ',
               mesh() ? text_of(mesh()->shape()) : "one rank", ' ', latents.raw(), ' ', pass.h.raw(), ' ',
               text.kv.raw(), ' ', c.exchange().used());
  };
  const auto segment = [&](const char* part, const std::function<void()>& body) {
    if (mesh() && !mesh()->capturable()) return body();
    c.segment(key(part), body);
  };
  segment("head", [&] { head(c, latents, pass); });
  const auto blocks = [&] {
    for (size_t i = 0; i < blocks_.size(); ++i) {
      run_block(c, i, pass);
      if (passed) passed(i);
    }
  };
  if (passed)
    blocks();
  else
    segment("blocks", blocks);
  segment("tail", [&] { tail(c, velocity, pass); });
  return velocity;
}

attn::Geometry WanTransformer::geometry(const Pass& pass) const {
  const TokenShard& shard = pass.shard;
  return {heads(), heads(), config_.width, shard.slot, shard.real, compute_, shard.first, pass.tokens};
}

void WanTransformer::reserve(const Pass& pass) const {
  exchange_->attention->reserve(geometry(pass));
  tp().reserve(pass.h.size());
  if (sequence_ranks() > 1)
    exchange_->velocity.reserve(sequence_ranks() * pass.shard.slot * head_columns() * bytes_of(DType::f32));
}

// This rank's tokens [S', 4 C_in], out of the frames that hold them; zeros for layout padding.
Tensor WanTransformer::patches(Ctx& c, const Tensor& latents, const Pass& pass) const {
  const auto& [slot, first, real] = pass.shard;
  Tensor own;
  if (real > 0) {
    const int64_t frame = pass.tokens / pass.frames, from = first / frame, to = (first + real + frame - 1) / frame;
    const Tensor x = patchify(c, latents.rows(from, to), config_.patch_rows, config_.patch_columns, compute_);
    own = x.rows(first - from * frame, first - from * frame + real);
  }
  if (real == slot) return own;
  const Tensor padded = c.empty({slot, config_.patch_rows * config_.patch_columns * config_.in_channels}, compute_);
  if (real > 0) copy(c, own, padded.rows(0, real));
  fill(c, padded.rows(real, slot), 0);
  return padded;
}

void WanTransformer::head(Ctx& c, const Tensor& latents, const Pass& pass) const {
  Scope scope(c.scratch());
  patch_.into(c, patches(c, latents, pass), pass.h);
  c.tap("patch", pass.h);
  fill_table(c, pass);
  norm_modulate_into(c, pass.h, pass.modulation(0), config_.eps, pass.n);
}

void WanTransformer::fill_table(Ctx& c, const Pass& pass) const {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const int64_t at = 6 * static_cast<int64_t>(i);
    copy(c, pass.tproj, pass.table.rows(at, at + 6));
    add(c, pass.table.rows(at, at + 6), blocks_[i].table);
  }
  const Tensor last = pass.table.rows(6 * config_.layers, 6 * config_.layers + 2);
  copy(c, table_, last);
  for (int64_t i = 0; i < 2; ++i) add(c, last.row(i), pass.temb);
}

// Each branch reads the norm that the one before it left, and leaves the next one's: residual and norm are one pass.
void WanTransformer::run_block(Ctx& c, size_t i, const Pass& pass) const {
  self_attention(c, i, pass);
  cross_attention(c, i, pass);
  feed_forward(c, i, pass);
  c.tap(cat("block.", i), pass.h);
}

void WanTransformer::self_attention(Ctx& c, size_t i, const Pass& pass) const {
  Scope scope(c.scratch());
  const Block& block = blocks_[i];
  WanSelfSource source(pass.n, {tp(), block.qkv, block.norm_q1, block.norm_k1, config_.eps}, pass.rope, geometry(pass),
                       cat("block.", i, '.'));
  const Tensor o = exchange_->attention->run(c, source).o;  // [S', N', D]
  const Tensor y = tp().sum(c, block.out1, flat(o));        // [S', C]
  c.tap(cat("block.", i, ".attn1"), y);
  gate_add_norm(c, pass.h, y, pass.gate(2 * i), {}, {config_.eps, block.norm2_w, block.norm2_b}, pass.n);
}

// Keys and values are the prompt's, made once by encode_text.
void WanTransformer::cross_attention(Ctx& c, size_t i, const Pass& pass) const {
  Scope scope(c.scratch());
  const Block& block = blocks_[i];
  const int64_t width = config_.width;
  const Heads q = as_heads(block.q2(c, pass.n), width);
  tp().norm_rope(c, {{q, block.norm_q2, q}}, config_.dim(), config_.eps, nullptr);
  const Tensor kv = pass.text.kv.row(static_cast<int64_t>(i));  // [512, 2C']
  const Tensor o = attention(c, q, as_heads(kv, 0, heads(), width), as_heads(kv, heads() * width, heads(), width)).o;
  const Tensor y = tp().sum(c, block.out2, flat(o));  // [S', C]
  c.tap(cat("block.", i, ".attn2"), y);
  gate_add_norm(c, pass.h, y, {}, {}, {.eps = config_.eps, .m = pass.modulation(2 * i + 1)}, pass.n);
}

void WanTransformer::feed_forward(Ctx& c, size_t i, const Pass& pass) const {
  Scope scope(c.scratch());
  const Tensor wide = blocks_[i].up(c, pass.n, {.act = Act::gelu_tanh});  // [S', this rank's part of ffn_dim]
  const Tensor y = tp().sum(c, blocks_[i].down, wide);                    // [S', C]
  c.tap(cat("block.", i, ".ffn"), y);
  gate_add_norm(c, pass.h, y, pass.gate(2 * i + 1), {}, {.eps = config_.eps, .m = pass.modulation(2 * i + 2)}, pass.n);
}

void WanTransformer::tail(Ctx& c, const Tensor& velocity, const Pass& pass) const {
  Scope scope(c.scratch());
  const auto& [slot, first, real] = pass.shard;
  const Shape shape{sequence_ranks() * slot, head_columns()};
  const Tensor all = sequence_ranks() > 1 ? exchange_->velocity.view(shape, DType::f32) : c.empty(shape, DType::f32);
  const Tensor own = all.rows(first, first + slot);  // [S', 4 C_out]
  head_.into(c, pass.n, own);
  c.tap("head", own);
  if (mesh()) mesh()->sequence().all_gather(c, own, all);
  const Tensor y = all.rows(0, pass.tokens);
  copy(c, unpatchify(c, y, pass.frames, pass.rows, pass.columns, config_.patch_rows, config_.patch_columns), velocity);
}

}  // namespace zoetrope
