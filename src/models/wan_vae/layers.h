// The layers of the Wan VAE decoder. Axes: t frames of a chunk, H rows, W columns, C channels, all of this rank's part
// of the frames. Each layer owns one slot of history a causal convolution; a Walk hands the slots out in order, the
// same at each chunk, and knows the part.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "nn/causal_conv.h"
#include "nn/linear.h"
#include "nn/slab.h"

namespace zoetrope::wan_vae {

// The slots of one stream during one chunk, and the part of the frames at the resolution that the chunk has reached.
class Walk {
 public:
  Walk(std::deque<Tensor>& slots, bool first, const nn::Slab& slab) : slab(slab), slots_(slots), first_(first) {}
  Tensor& next() {
    if (at_ == slots_.size()) slots_.emplace_back();
    return slots_[at_++];
  }
  bool first() const { return first_; }  // the chunk that holds frame 0 alone

  nn::Slab slab;

 private:
  std::deque<Tensor>& slots_;
  size_t at_ = 0;
  bool first_;
};

// x -> conv2(silu(norm2(conv1(silu(norm1(x)))))) + shortcut(x). The result is x itself, overwritten, where the width
// stays; else a new tensor.
struct ResBlock {
  Tensor norm1, norm2;
  nn::CausalConv conv1, conv2;
  nn::Linear shortcut;  // undefined where the width stays

  void load(nn::Loader& from, const std::string& prefix, int64_t in, int64_t out);
  Tensor operator()(Ctx& c, const Tensor& x, Walk& walk) const;
};

// Within each frame: one head over all positions, added to x in place. Of a part of the frame, the queries alone.
struct FrameAttention {
  Tensor norm;
  nn::Linear qkv, out;

  void load(nn::Loader& from, const std::string& prefix, int64_t dim);
  void operator()(Ctx& c, const Tensor& x, const nn::Slab& slab) const;
};

// Twice the rows and columns, half the channels; in time, every frame but frame 0 becomes two. The convolution in time
// never sees frame 0: its history before frame 1 is zeros.
struct Upsampler {
  nn::CausalConv time;  // undefined: space only
  Tensor w, b;          // [C/2, 1, 3, 3, C]

  void load(nn::Loader& from, const std::string& prefix, int64_t dim, bool in_time);
  Tensor operator()(Ctx& c, const Tensor& x, Walk& walk) const;
};

// One resolution of the decoder.
struct Stage {
  std::vector<ResBlock> resnets;
  bool upsamples = false;
  Upsampler upsampler;

  Tensor operator()(Ctx& c, Tensor x, Walk& walk) const;
};

}  // namespace zoetrope::wan_vae
