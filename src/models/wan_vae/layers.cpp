#include "models/wan_vae/layers.h"

#include <utility>

namespace zoetrope::wan_vae {
namespace {

// [t, H, W, C] -> [t*H*W, C]: a 1x1x1 convolution is a product.
Tensor pixels(const Tensor& x) { return x.view({x.size() / x.dim(3), x.dim(3)}); }

}  // namespace

void Frames::settle(Ctx& c) {
  if (pending) add(c, x, more);
  pending = false;
}

// Where lines are fetched, those of all frames travel at once; else the sum, the norm and the place where the
// convolution looks for its next frame are one pass.
void norm_silu_conv(Ctx& c, Frames& frames, const Tensor& gamma, const nn::CausalConv& conv, nn::Past& past,
                    const Tensor& y, const nn::Slab& slab, const nn::Slab& to) {
  Scope scope(c.scratch());
  if (slab.fetches()) frames.settle(c);
  const Tensor x = conv.surround(c, frames.x, slab);
  for (int64_t i = 0; i < x.dim(0); ++i) {
    const Tensor one = x.rows(i, i + 1), into = conv.next(c, frames.x.shape(), past, slab);
    if (frames.pending)
      add_channel_norm(c, one, frames.more.rows(i, i + 1), gamma, true, into);
    else
      channel_norm(c, one, gamma, true, into);
    conv.run(c, past, y.rows(i, i + 1), slab, to);
  }
  frames.pending = false;
}

void ResBlock::load(nn::Loader& from, const std::string& prefix, int64_t in, int64_t out) {
  from.tensor(norm1, prefix + "norm1.gamma", {in, 1, 1, 1}, {in});
  nn::load(from, conv1, prefix + "conv1", {out, in, 3, 3, 3});
  from.tensor(norm2, prefix + "norm2.gamma", {out, 1, 1, 1}, {out});
  nn::load(from, conv2, prefix + "conv2", {out, out, 3, 3, 3});
  if (in == out) return;
  from.tensor(shortcut.w, prefix + "conv_shortcut.weight", {out, in, 1, 1, 1}, {out, in});
  from.tensor(shortcut.b, prefix + "conv_shortcut.bias", {out});
}

void ResBlock::operator()(Ctx& c, Frames& frames, Walk& walk) const {
  nn::Past &past1 = walk.next(), &past2 = walk.next();
  const bool widens = shortcut.w.defined();
  const Tensor middle = widens ? c.empty(frames.x.shape().with(3, shortcut.w.dim(0)), frames.x.dtype()) : frames.more;
  norm_silu_conv(c, frames, norm1, conv1, past1, middle, walk.slab, walk.slab);
  if (widens) {
    const Tensor x = frames.x;
    frames = Frames(c, middle);
    shortcut.into(c, pixels(x), pixels(frames.more));
    std::swap(frames.x, frames.more);  // x: the shortcut, more: what conv1 made
  }
  Frames inner = frames;
  inner.x = frames.more, inner.pending = false;
  norm_silu_conv(c, inner, norm2, conv2, past2, frames.more, walk.slab, walk.slab);
  frames.pending = true;
}

void FrameAttention::load(nn::Loader& from, const std::string& prefix, int64_t dim) {
  from.tensor(norm, prefix + "norm.gamma", {dim, 1, 1}, {dim});
  from.tensor(qkv.w, prefix + "to_qkv.weight", {3 * dim, dim, 1, 1}, {3 * dim, dim});
  from.tensor(qkv.b, prefix + "to_qkv.bias", {3 * dim});
  from.tensor(out.w, prefix + "proj.weight", {dim, dim, 1, 1}, {dim, dim});
  from.tensor(out.b, prefix + "proj.bias", {dim});
}

void FrameAttention::operator()(Ctx& c, Frames& frame, const nn::Slab& slab) const {
  Scope scope(c.scratch());
  const int64_t dim = frame.x.dim(3);
  const Tensor x = pixels(frame.x), more = pixels(frame.more), normed = c.empty_like(x);  // [H*W, C]
  if (frame.pending)
    add_channel_norm(c, x, more, norm, false, normed);
  else
    channel_norm(c, x, norm, false, normed);
  const Tensor all = qkv(c, normed);  // [H*W, 3C]
  const Heads q = as_heads(all, 0, 1, dim);
  Heads kv = as_heads(all, dim, 2, dim);
  if (!slab.whole()) kv = as_heads(slab.all_gather(c, kv, frame.x.shape().with(3, 2 * dim)), dim);
  out.into(c, attention(c, q, slice_heads(kv, 0, 1), slice_heads(kv, 1, 2)).o.view(x.shape()), more);
  frame.pending = true;
}

void Upsampler::load(nn::Loader& from, const std::string& prefix, int64_t dim, bool in_time) {
  if (in_time) nn::load(from, time, prefix + "time_conv", {2 * dim, dim, 3, 1, 1});
  from.conv(w, b, prefix + "resample.1", {dim / 2, dim, 3, 3});
}

std::vector<Tensor> Upsampler::take_apart(Ctx& c, DType compute, Region& region) const {
  const int64_t outputs = w.dim(0);
  const Tensor twice = c.empty({2 * outputs}, compute, region);
  const Scope scope(c.scratch());
  const Tensor bias = cast(c, b, compute);
  for (int64_t i = 0; i < 2; ++i) copy(c, bias, twice.rows(i * outputs, (i + 1) * outputs));
  return {corner_weights(c, w, compute, region), twice};
}

Tensor Upsampler::operator()(Ctx& c, Frames& frames, Walk& walk) const {
  frames.settle(c);
  const Tensor& x = frames.x;
  const bool doubles = time.w.defined() && !walk.first();
  const nn::Slab fine = walk.slab.finer();
  Shape shape = fine.part({(doubles ? 2 : 1) * x.dim(0), 2 * x.dim(1), 2 * x.dim(2), w.dim(0)});
  const Tensor y = c.empty(shape, x.dtype());
  Scope scope(c.scratch());
  const Tensor some = time.w.defined() ? in_time(c, x, walk) : x;
  const Tensor wide = walk.slab.surround(c, some, nn::Slab::around);
  for (int64_t i = 0; i < wide.dim(0); ++i)
    walk.slab.enlarge(c, wide.rows(i, i + 1), corners, bias, fine, y.rows(i, i + 1));
  walk.slab = fine;
  return y;
}

// [t, H, W, C] -> [2t, H, W, C]; frame 0 as it is.
Tensor Upsampler::in_time(Ctx& c, const Tensor& x, Walk& walk) const {
  nn::Past& past = walk.next();
  if (walk.first()) return x;
  const Tensor pairs = c.empty(x.shape().with(3, time.w.dim(0)), x.dtype());
  for (int64_t i = 0; i < x.dim(0); ++i) {
    copy(c, x.rows(i, i + 1), time.next(c, x.shape(), past, walk.slab));
    time.run(c, past, pairs.rows(i, i + 1), walk.slab);
  }
  return interleave_frames(c, pairs);
}

}  // namespace zoetrope::wan_vae
