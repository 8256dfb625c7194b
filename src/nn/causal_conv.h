// A convolution over [T, H, W, C] that never looks ahead: kt - 1 frames of history stand in front of each new one,
// zeros before the first. Rows and columns are padded with zeros on both sides by (k - 1) / 2. One frame at a time, so
// that any cut of the same frames into chunks gives the same numbers.
#pragma once
#include "nn/loader.h"
#include "nn/slab.h"
#include "ops/ops.h"

namespace zoetrope::nn {

// The last kt input frames of one convolution on one clip, in a ring that nothing is ever moved in: frame i lies at
// i mod kt. Zeros before the first frame. Lives in the request region.
struct Past {
  Tensor ring;        // [kt, H, W, I] with the lines that are fetched for a part; undefined before the first frame
  int64_t count = 0;  // frames so far
  Tensor turned[2];   // weights for the ring's other orders, where they are small enough to be kept
};

struct CausalConv {
  Tensor w, b;  // [O, kt, kh, kw, I], [O]

  // How a frame goes through: write it to next() [1, H, W, I], then run() makes y [1, H, W, O] of it.
  //
  // Of frames that are cut (`slab`), the ring also holds the lines that are fetched for the part: what goes into next()
  // is then made from surround(x) of some frames instead of x, pixel by pixel.
  Tensor next(Ctx& c, const Shape& frames, Past& past, const Slab& slab = {}) const;
  Tensor surround(Ctx& c, const Tensor& x, const Slab& slab) const { return slab.surround(c, x, options()); }
  void run(Ctx& c, Past& past, const Tensor& y, const Slab& slab, const Slab& to) const;
  void run(Ctx& c, Past& past, const Tensor& y, const Slab& slab = {}) const { run(c, past, y, slab, slab); }

  ConvOptions options() const;  // zeros around whole frames

 private:
  Tensor turned(Ctx& c, Past& past) const;
};

// shape: [O, I, kt, kh, kw] as in the checkpoint
inline void load(Loader& from, CausalConv& into, const std::string& prefix, const Shape& shape) {
  from.conv(into.w, into.b, prefix, shape);
}

}  // namespace zoetrope::nn
