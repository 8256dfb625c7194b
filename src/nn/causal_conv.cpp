#include "nn/causal_conv.h"

namespace zoetrope::nn {

Tensor CausalConv::open(Ctx& c, const Shape& frames, const Tensor& history, const Slab& slab) const {
  const Tensor buffer = c.empty(slab.surrounded(frames, options()).with(0, past() + frames[0]), w.dtype());
  if (past() == 0) return buffer;
  if (history.defined())
    copy(c, history, buffer.rows(0, past()));
  else
    fill(c, buffer.rows(0, past()), 0);
  return buffer;
}

Tensor CausalConv::surround(Ctx& c, const Tensor& x, const Tensor& buffer, const Slab& slab) const {
  return slab.surround(c, x, options(), fresh(buffer));
}

Tensor CausalConv::run(Ctx& c, const Tensor& buffer, Tensor& history, const Tensor& add, const Slab& slab) const {
  return run(c, buffer, history, add, slab, slab);
}

Tensor CausalConv::run(Ctx& c, const Tensor& buffer, Tensor& history, const Tensor& add, const Slab& slab,
                       const Slab& to) const {
  const Tensor y = slab.conv(c, buffer, w, b, options(), add, to);
  if (past() == 0) return y;
  if (!history.defined()) history = c.empty(buffer.shape().with(0, past()), w.dtype(), c.request());
  copy(c, buffer.rows(buffer.dim(0) - past(), buffer.dim(0)), history);
  return y;
}

ConvOptions CausalConv::options() const {
  const int rows = static_cast<int>(w.dim(2) - 1) / 2, columns = static_cast<int>(w.dim(3) - 1) / 2;
  return {.top = rows, .bottom = rows, .left = columns, .right = columns};
}

}  // namespace zoetrope::nn
