#include "models/wan_vae/layers.h"

namespace zoetrope::wan_vae {
namespace {

// [t, H, W, C] -> [t*H*W, C]: a 1x1x1 convolution is a product.
Tensor pixels(const Tensor& x) { return x.view({x.size() / x.dim(3), x.dim(3)}); }

// The zeros around whole frames, enlarged to twice their rows and columns.
constexpr ConvOptions enlarged{.top = 1, .bottom = 1, .left = 1, .right = 1, .upsample2 = true};

}  // namespace

void ResBlock::load(nn::Loader& from, const std::string& prefix, int64_t in, int64_t out) {
  from.tensor(norm1, prefix + "norm1.gamma", {in, 1, 1, 1}, {in});
  nn::load(from, conv1, prefix + "conv1", {out, in, 3, 3, 3});
  from.tensor(norm2, prefix + "norm2.gamma", {out, 1, 1, 1}, {out});
  nn::load(from, conv2, prefix + "conv2", {out, out, 3, 3, 3});
  if (in == out) return;
  from.tensor(shortcut.w, prefix + "conv_shortcut.weight", {out, in, 1, 1, 1}, {out, in});
  from.tensor(shortcut.b, prefix + "conv_shortcut.bias", {out});
}

// The first convolution's buffers are given back before the second runs: only its input outlives them.
Tensor ResBlock::operator()(Ctx& c, const Tensor& x, Walk& walk) const {
  Tensor &history1 = walk.next(), &history2 = walk.next();
  const bool widens = shortcut.w.defined();
  const Tensor y = widens ? c.empty(x.shape().with(3, shortcut.w.dim(0)), x.dtype()) : x;
  Scope scope(c.scratch());
  const Tensor second = conv2.open(c, y.shape(), history2, walk.slab);
  {
    Scope inner(c.scratch());
    const Tensor first = conv1.open(c, x.shape(), history1, walk.slab);
    channel_norm(c, conv1.surround(c, x, first, walk.slab), norm1, true, conv1.fresh(first));
    const Tensor middle = conv1.run(c, first, history1, {}, walk.slab);
    channel_norm(c, conv2.surround(c, middle, second, walk.slab), norm2, true, conv2.fresh(second));
  }
  const Tensor straight = widens ? shortcut(c, pixels(x)).view(y.shape()) : x;
  copy(c, conv2.run(c, second, history2, straight, walk.slab), y);
  return y;
}

void FrameAttention::load(nn::Loader& from, const std::string& prefix, int64_t dim) {
  from.tensor(norm, prefix + "norm.gamma", {dim, 1, 1}, {dim});
  from.tensor(qkv.w, prefix + "to_qkv.weight", {3 * dim, dim, 1, 1}, {3 * dim, dim});
  from.tensor(qkv.b, prefix + "to_qkv.bias", {3 * dim});
  from.tensor(out.w, prefix + "proj.weight", {dim, dim, 1, 1}, {dim, dim});
  from.tensor(out.b, prefix + "proj.bias", {dim});
}

void FrameAttention::operator()(Ctx& c, const Tensor& x, const nn::Slab& slab) const {
  const int64_t dim = x.dim(3);
  for (int64_t frame = 0; frame < x.dim(0); ++frame) {
    Scope scope(c.scratch());
    const Tensor part = x.rows(frame, frame + 1), here = pixels(part);  // [H*W, C]
    const Tensor normed = c.empty_like(here);
    channel_norm(c, here, norm, false, normed);
    const Tensor all = qkv(c, normed);  // [H*W, 3C]
    const Heads q = as_heads(all, 0, 1, dim);
    Heads kv = as_heads(all, dim, 2, dim);
    if (!slab.whole()) kv = as_heads(slab.all_gather(c, kv, part.shape().with(3, 2 * dim)), dim);
    add(c, here, out(c, attention(c, q, slice_heads(kv, 0, 1), slice_heads(kv, 1, 2)).o.view(here.shape())));
  }
}

void Upsampler::load(nn::Loader& from, const std::string& prefix, int64_t dim, bool in_time) {
  if (in_time) nn::load(from, time, prefix + "time_conv", {2 * dim, dim, 3, 1, 1});
  from.conv(w, b, prefix + "resample.1", {dim / 2, dim, 3, 3});
}

Tensor Upsampler::operator()(Ctx& c, const Tensor& x, Walk& walk) const {
  const bool doubles = time.w.defined() && !walk.first();
  const nn::Slab fine = walk.slab.finer();
  const Shape twice{(doubles ? 2 : 1) * x.dim(0), 2 * x.dim(1), 2 * x.dim(2), w.dim(0)};
  const Tensor y = c.empty(fine.part(twice), x.dtype());
  Tensor unused;
  Tensor& history = time.w.defined() ? walk.next() : unused;
  Scope scope(c.scratch());
  Tensor frames = x;
  if (doubles) {
    const Tensor buffer = time.open(c, x.shape(), history, walk.slab);
    copy(c, x, time.fresh(buffer));
    frames = interleave_frames(c, time.run(c, buffer, history, {}, walk.slab));  // [2t, H, W, C]
  }
  copy(c, walk.slab.conv(c, walk.slab.surround(c, frames, enlarged), w, b, enlarged, {}, fine), y);
  walk.slab = fine;
  return y;
}

Tensor Stage::operator()(Ctx& c, Tensor x, Walk& walk) const {
  for (const ResBlock& block : resnets) x = block(c, x, walk);
  return upsamples ? upsampler(c, x, walk) : x;
}

}  // namespace zoetrope::wan_vae
