#include "models/wan_vae/decoder.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace zoetrope {

using wan_vae::Frames, wan_vae::Walk;

namespace {

// Adds only where somebody looks: the next norm would have done it.
void tap(Ctx& c, const std::string& name, Frames& frames) {
  if (!c.rank().tap) return;
  frames.settle(c);
  c.tap(name, frames.x);
}

}  // namespace

WanVaeDecoder::WanVaeDecoder(Ctx& c, const WanVaeConfig& config, nn::Parameters& parameters, DType compute,
                             const std::string& component, const VaeRanks& ranks)
    : config_(config),
      compute_(compute),
      component_(component),
      ranks_(ranks),
      stages_(config.multipliers.size()),
      lines_(c.exchange()),
      frames_(c.exchange()) {
  const int64_t multiple = c.traits().channel_multiple;
  const int64_t narrowest = config.decoder_base_dim * config.multipliers.front();
  if (config.z_dim % multiple != 0 || narrowest % multiple != 0)
    fail(Code::unsupported, component, ": ", config.z_dim, " latent channels and ", narrowest,
         " of the decoder's last stage; on this device both must be multiples of ", multiple);
  nn::Loader loader(c, component, parameters, compute, {"resample"});
  for (const nn::Entry& entry : wan_vae_encoder_entries(config)) loader.known(entry);
  load(loader);
  loader.load();
  entries_ = loader.used();
  take_apart(c);
}

// Ranks that share the weights share these, too.
void WanVaeDecoder::take_apart(Ctx& c) {
  const auto make = [&](Region& region) {
    std::vector<Tensor> made;
    for (const wan_vae::Stage& stage : stages_)
      if (stage.upsamples) std::ranges::move(stage.upsampler.take_apart(c, compute_, region), std::back_inserter(made));
    c.stream().sync();
    return made;
  };
  const std::vector<Tensor> made = c.load_weights(component_, "corners", make);
  size_t at = 0;
  for (wan_vae::Stage& stage : stages_)
    if (stage.upsamples) stage.upsampler.corners = made[at], stage.upsampler.bias = made[at + 1], at += 2;
}

void WanVaeDecoder::load(nn::Loader& from) {
  const int64_t z = config_.z_dim, base = config_.decoder_base_dim;
  from.constant(mean_, {z}, config_.mean);
  from.constant(std_, {z}, config_.std);
  from.tensor(post_quant_.w, "post_quant_conv.weight", {z, z, 1, 1, 1}, {z, z});
  from.tensor(post_quant_.b, "post_quant_conv.bias", {z});

  int64_t dim = base * config_.multipliers.back();
  nn::load(from, conv_in_, "decoder.conv_in", {dim, z, 3, 3, 3});
  mid_[0].load(from, "decoder.mid_block.resnets.0.", dim, dim);
  mid_attention_.load(from, "decoder.mid_block.attentions.0.", dim);
  mid_[1].load(from, "decoder.mid_block.resnets.1.", dim, dim);

  for (size_t i = 0; i < stages_.size(); ++i) {
    wan_vae::Stage& stage = stages_[i];
    const size_t mirror = stages_.size() - 1 - i;
    const int64_t out = base * config_.multipliers[mirror];
    const std::string prefix = cat("decoder.up_blocks.", i, '.');
    stage.resnets.resize(static_cast<size_t>(config_.resnets + 1));
    for (size_t j = 0; j < stage.resnets.size(); ++j, dim = out)
      stage.resnets[j].load(from, cat(prefix, "resnets.", j, '.'), dim, out);
    stage.upsamples = mirror > 0;
    if (!stage.upsamples) break;
    stage.upsampler.load(from, prefix + "upsamplers.0.", dim, config_.shrinks_time[mirror - 1]);
    dim = dim / 2;
  }
  from.tensor(norm_out_, "decoder.norm_out.gamma", {dim, 1, 1, 1}, {dim});
  nn::load(from, conv_out_, "decoder.conv_out", {3, dim, 3, 3, 3});
}

Tensor WanVaeDecoder::Stream::decode_next(Ctx& c, const Tensor& latent) {
  const WanVaeConfig& config = decoder_.config_;
  require(latent.rank() == 4 && latent.dim(0) == 1 && latent.dim(3) == config.z_dim && latent.dtype() == DType::f32,
          decoder_.component_, ": a latent frame is ", latent.shape(), " ", latent.dtype(), ", should be [1, H, W, ",
          config.z_dim, "] fp32");
  require(first_ || latent.shape() == latent_, decoder_.component_, ": a latent frame is ", latent.shape(),
          " but the clip began with ", latent_);
  if (first_) slab_ = decoder_.cut(latent.shape());
  const int64_t count = first_ ? 1 : config.temporal_factor(), grow = config.spatial_factor();
  const Shape whole{count, grow * latent.dim(1), grow * latent.dim(2), 3};
  const Tensor frames = c.empty(slab_.share(grow).part(whole), decoder_.compute_);
  Scope scope(c.scratch());
  decoder_.decode(c, latent, slab_, Walk(slots_, first_, slab_), frames);
  first_ = false, latent_ = latent.shape();
  return frames;
}

void WanVaeDecoder::decode(Ctx& c, const Tensor& latent, const nn::Slab& slab, Walk walk, const Tensor& frames) const {
  const bool alone = ranks_.form == VaeForm::overlap;
  if (alone && slab.empty()) return;
  if (alone) walk.slab = {};
  Frames x = enter(c, latent, walk);
  if (alone && !slab.whole()) {
    x.settle(c);
    x = Frames(c, slab.part(c, x.x));
  }
  if (alone) walk.slab = slab;
  rise(c, 0, x, walk, frames);
}

// [1, H, W, z] -> [1, H, W, C] after the middle block. Every rank has the whole latent: its first convolution fetches
// nothing.
Frames WanVaeDecoder::enter(Ctx& c, const Tensor& latent, Walk& walk) const {
  nn::Past& past = walk.next();
  const Tensor z = affine(c, walk.slab.part(c, latent, conv_in_.options()), std_, mean_, compute_);
  const Tensor next = conv_in_.next(c, walk.slab.part(latent.shape()), past, walk.slab);
  post_quant_.into(c, z.view({z.size() / config_.z_dim, config_.z_dim}),
                   next.view({z.size() / config_.z_dim, config_.z_dim}));
  c.tap("post_quant", next);
  Frames x(c, c.empty(walk.slab.part(latent.shape()).with(3, conv_in_.w.dim(0)), compute_));
  conv_in_.run(c, past, x.x, walk.slab);
  c.tap("conv_in", x.x);
  mid_[0](c, x, walk);
  mid_attention_(c, x, walk.slab);
  mid_[1](c, x, walk);
  tap(c, "mid", x);
  return x;
}

// Some frames from this stage on, to their part of the result. Where ranks fetch lines from each other, all frames go
// together: a message for each would cost more than their memory.
void WanVaeDecoder::rise(Ctx& c, size_t i, Frames some, Walk walk, const Tensor& frames) const {
  const wan_vae::Stage& stage = stages_[i];
  for (const wan_vae::ResBlock& block : stage.resnets) block(c, some, walk);
  if (!stage.upsamples) {
    tap(c, cat("up.", i), some);
    return leave(c, some, frames, walk);
  }
  const Tensor x = stage.upsampler(c, some, walk);
  c.tap(cat("up.", i), x);
  const int64_t group = walk.slab.fetches() ? x.dim(0) : 1, each = frames.dim(0) / x.dim(0);
  for (int64_t from = 0; from < x.dim(0); from += group) {
    Scope scope(c.scratch());
    rise(c, i + 1, Frames(c, x.rows(from, from + group)), walk, frames.rows(from * each, (from + group) * each));
  }
}

void WanVaeDecoder::leave(Ctx& c, Frames& some, const Tensor& frames, Walk& walk) const {
  nn::Past& past = walk.next();
  const nn::Slab share = walk.slab.share(config_.spatial_factor());
  const int64_t outputs = conv_out_.w.dim(0);  // 3, or padded
  const Tensor y = outputs == 3 ? frames : c.empty(frames.shape().with(3, outputs), frames.dtype());
  wan_vae::norm_silu_conv(c, some, norm_out_, conv_out_, past, y, walk.slab, share);
  if (outputs == 3) return;
  const int64_t pixels = frames.size() / 3;
  copy_heads(c, as_heads(y.view({pixels, outputs}), 0, 1, 3), as_heads(frames.view({pixels, 3}), 3));
}

}  // namespace zoetrope
