// The layers of the Wan VAE decoder. Axes: t frames of a chunk, H rows, W columns, C channels, all of this rank's part
// of the frames. Each layer owns one slot of history a causal convolution; a Walk hands the slots out in order, the
// same for all frames, and knows the part.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "nn/causal_conv.h"
#include "nn/linear.h"
#include "nn/slab.h"

namespace zoetrope::wan_vae {

// The slots of one stream during one chunk, and the part of the frames at the resolution that they have reached. A copy
// goes its own way from the same place.
class Walk {
 public:
  Walk(std::deque<nn::Past>& slots, bool first, const nn::Slab& slab) : slab(slab), slots_(slots), first_(first) {}
  nn::Past& next() {
    if (at_ == slots_.size()) slots_.emplace_back();
    return slots_[at_++];
  }
  bool first() const { return first_; }  // the chunk that holds frame 0 alone

  nn::Slab slab;

 private:
  std::deque<nn::Past>& slots_;
  size_t at_ = 0;
  bool first_;
};

// Some frames between two layers: x, and room for as much. `pending`: the room holds what has yet to be added to x; the
// next norm does so while it reads.
struct Frames {
  Tensor x, more;  // [t, H, W, C]
  bool pending = false;

  Frames(Ctx& c, const Tensor& x) : x(x), more(c.empty_like(x)) {}
  void settle(Ctx& c);  // adds it now
};

// y [t, H', W', O] = conv(silu(norm(x))), frame by frame; y may be the room of the frames. x is settled then.
void norm_silu_conv(Ctx& c, Frames& frames, const Tensor& gamma, const nn::CausalConv& conv, nn::Past& past,
                    const Tensor& y, const nn::Slab& slab, const nn::Slab& to);

// x -> conv2(silu(norm2(conv1(silu(norm1(x)))))) + shortcut(x), left pending. Where the width changes the frames are
// new tensors.
struct ResBlock {
  Tensor norm1, norm2;
  nn::CausalConv conv1, conv2;
  nn::Linear shortcut;  // undefined where the width stays

  void load(nn::Loader& from, const std::string& prefix, int64_t in, int64_t out);
  void operator()(Ctx& c, Frames& frames, Walk& walk) const;
};

// Within a frame: one head over all positions, left pending. Of a part of the frame, the queries alone.
struct FrameAttention {
  Tensor norm;
  nn::Linear qkv, out;

  void load(nn::Loader& from, const std::string& prefix, int64_t dim);
  void operator()(Ctx& c, Frames& frame, const nn::Slab& slab) const;
};

// Twice the rows and columns, half the channels; in time, every frame but frame 0 becomes two. The convolution in time
// never sees frame 0: its history before frame 1 is zeros.
struct Upsampler {
  nn::CausalConv time;   // undefined: space only
  Tensor w, b;           // [C/2, 1, 3, 3, C] fp32, as they are stored
  Tensor corners, bias;  // what is computed with: w taken apart, b twice

  void load(nn::Loader& from, const std::string& prefix, int64_t dim, bool in_time);
  std::vector<Tensor> take_apart(Ctx& c, DType compute, Region& region) const;  // makes corners and bias
  Tensor operator()(Ctx& c, Frames& frames, Walk& walk) const;

 private:
  Tensor in_time(Ctx& c, const Tensor& x, Walk& walk) const;
};

// One resolution of the decoder.
struct Stage {
  std::vector<ResBlock> resnets;
  bool upsamples = false;
  Upsampler upsampler;
};

}  // namespace zoetrope::wan_vae
