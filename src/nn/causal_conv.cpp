#include "nn/causal_conv.h"

#include <iterator>

namespace zoetrope::nn {

Tensor CausalConv::next(Ctx& c, const Shape& frames, Past& past, const Slab& slab) const {
  const int64_t depth = w.dim(1), at = past.count % depth;
  if (!past.ring.defined()) {
    past.ring = c.empty(slab.surrounded(frames, options()).with(0, depth), w.dtype(), c.request());
    fill(c, past.ring, 0);
  }
  return past.ring.rows(at, at + 1);
}

// The ring is read as it lies, so the weights are turned instead: a copy of at most some MiB where moving frames would
// take hundreds. The order of a sum changes with it, from frame to frame, but not with the cut of the clip.
void CausalConv::run(Ctx& c, Past& past, const Tensor& y, const Slab& slab, const Slab& to) const {
  Scope scope(c.scratch());
  slab.conv(c, past.ring, turned(c, past), b, options(), {}, to, y);
  ++past.count;
}

// Weights for a ring whose newest frame stands at count mod kt: that one meets the last tap, the one behind it (the
// oldest) the first. Those of fine stages are small and used for many frames.
Tensor CausalConv::turned(Ctx& c, Past& past) const {
  constexpr int64_t most_kept = int64_t{4} << 20;
  const int64_t outputs = w.dim(0), depth = w.dim(1), width = w.size() / (outputs * depth);
  const int64_t newest = past.count % depth, late = newest + 1;
  if (late == depth) return w;
  const bool keeps = w.bytes() <= most_kept && newest < std::ssize(past.turned);
  Tensor& kept = past.turned[keeps ? newest : 0];
  if (keeps && kept.defined()) return kept;
  const Tensor y = c.empty(w.shape(), w.dtype(), keeps ? c.request() : c.scratch());
  const Heads from = as_heads(w.view({outputs, depth * width}), width),
              into = as_heads(y.view({outputs, depth * width}), width);
  copy_heads(c, slice_heads(from, depth - late, depth), slice_heads(into, 0, late));
  copy_heads(c, slice_heads(from, 0, depth - late), slice_heads(into, late, depth));
  if (keeps) kept = y;
  return y;
}

ConvOptions CausalConv::options() const {
  const int rows = static_cast<int>(w.dim(2) - 1) / 2, columns = static_cast<int>(w.dim(3) - 1) / 2;
  return {.top = rows, .bottom = rows, .left = columns, .right = columns};
}

}  // namespace zoetrope::nn
