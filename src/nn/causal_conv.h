// A convolution over [T, H, W, C] that never looks ahead: kt - 1 frames of history stand in front of the new ones,
// zeros before the first. Rows and columns are padded with zeros on both sides by (k - 1) / 2. Streaming keeps the last
// kt - 1 input frames, so that any cut of the same frames into chunks gives the same numbers.
#pragma once
#include "nn/loader.h"
#include "nn/slab.h"
#include "ops/ops.h"

namespace zoetrope::nn {

struct CausalConv {
  Tensor w, b;  // [O, kt, kh, kw, I], [O]

  // How a chunk goes through: open() a buffer [kt-1 + t, H, W, I] that begins with the history; write the new frames to
  // fresh(buffer) [t, H, W, I]; run() convolves, adds `add` if given, keeps the new history. A history is undefined
  // before the first chunk and lives in the request region.
  //
  // Of frames that are cut (`slab`), buffer and history also hold the lines that are fetched for the part. What goes
  // into fresh(buffer) is then made from surround(x) instead of x, pixel by pixel; it may lie in fresh(buffer) itself.
  Tensor open(Ctx& c, const Shape& frames, const Tensor& history, const Slab& slab = {}) const;
  Tensor fresh(const Tensor& buffer) const { return buffer.rows(past(), buffer.dim(0)); }
  Tensor surround(Ctx& c, const Tensor& x, const Tensor& buffer, const Slab& slab) const;
  Tensor run(Ctx& c, const Tensor& buffer, Tensor& history, const Tensor& add, const Slab& slab = {}) const;
  Tensor run(Ctx& c, const Tensor& buffer, Tensor& history, const Tensor& add, const Slab& slab, const Slab& to) const;

  ConvOptions options() const;  // zeros around whole frames

 private:
  int64_t past() const { return w.dim(1) - 1; }
};

// shape: [O, I, kt, kh, kw] as in the checkpoint
inline void load(Loader& from, CausalConv& into, const std::string& prefix, const Shape& shape) {
  from.conv(into.w, into.b, prefix, shape);
}

}  // namespace zoetrope::nn
