// The decoder on several ranks: where frames are cut, and what that takes.
#include <algorithm>

#include "models/wan_vae/decoder.h"

namespace zoetrope {

// Each convolution that lacks its neighbours spoils one more line at the outer end of a margin. From the end: what is
// needed before each stage for a share without spoilt lines; 13, 12, 10, 7 in the released decoder.
std::vector<int64_t> WanVaeDecoder::margins() const {
  std::vector<int64_t> lines(stages_.size());
  int64_t needed = 1;  // conv_out
  for (size_t i = stages_.size(); i-- > 0;) {
    lines[i] = needed + 2 * static_cast<int64_t>(stages_[i].resnets.size());
    needed = (lines[i] + 1 + 1) / 2;  // the upsampler before it, of half as many lines, rounded up
  }
  return lines;
}

// Elements of the longest row or column that a convolution reads, in all frames of a chunk, if latent frames are so
// many pixels across.
int64_t WanVaeDecoder::longest_line(int64_t across) const {
  int64_t frames = 1, longest = across * conv_in_.w.dim(0);
  const auto read = [&](const Tensor& w) { longest = std::max(longest, frames * across * w.dim(4)); };
  for (const wan_vae::Stage& stage : stages_) {
    for (const wan_vae::ResBlock& block : stage.resnets) read(block.conv1.w), read(block.conv2.w);
    if (!stage.upsamples) break;
    if (stage.upsampler.time.w.defined()) frames *= 2;
    read(stage.upsampler.w);
    across *= 2;
  }
  read(conv_out_.w);
  return longest;
}

nn::Slab WanVaeDecoder::cut(const Shape& latent) const {
  if (!split()) return {};
  const bool height = ranks_.split == VaeSplit::height;
  const int64_t extent = latent[height ? 1 : 2], across = latent[height ? 2 : 1];
  if (ranks_.form == VaeForm::overlap) return {*ranks_.comm, ranks_.split, extent, margins()};
  nn::Slab slab(*ranks_.comm, ranks_.split, extent);
  const int64_t keys = 2 * across * conv_in_.w.dim(0);
  slab.reserve(lines_, longest_line(across) * bytes_of(compute_), keys * bytes_of(compute_));
  return slab;
}

Tensor WanVaeDecoder::Stream::gather(Ctx& c, const Tensor& part) const {
  if (slab_.whole()) return part;
  const WanVaeConfig& config = decoder_.config_;
  const nn::Slab share = slab_.share(config.spatial_factor());
  decoder_.frames_.reserve(share.gather_bytes(part.shape().with(0, config.temporal_factor()), part.dtype()));
  return share.gather(c, part, decoder_.frames_);
}

}  // namespace zoetrope
