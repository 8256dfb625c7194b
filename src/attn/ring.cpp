#include "attn/ring.h"

#include <utility>

namespace zoetrope::attn {
namespace {

Shape block_shape(const Geometry& geo) { return {geo.tokens, 2 * geo.key_heads, geo.width}; }

Heads keys(const Tensor& block, const Geometry& geo) {
  return slice_heads(as_heads(block, geo.width), 0, geo.key_heads);
}
Heads values(const Tensor& block, const Geometry& geo) {
  return slice_heads(as_heads(block, geo.width), geo.key_heads, 2 * geo.key_heads);
}

}  // namespace

Ring::Ring(Ctx& c, Comm& group, std::unique_ptr<Attention> inner)
    : group_(group), inner_(std::move(inner)), slots_{Slot(c.exchange()), Slot(c.exchange())} {}

void Ring::reserve(const Geometry& geo) {
  if (group_.size() > 1)
    for (Slot& slot : slots_) slot.reserve(block_shape(geo).size() * bytes_of(geo.dtype));
  inner_->reserve(geo);
}

Partial Ring::run(Ctx& c, Source& source) {
  if (group_.size() == 1) return inner_->run(c, source);
  require_place("ring", source.geo);
  Merge sum(c, source.geo);
  {
    const Scope scope(c.scratch());
    rotate(c, source, sum);
  }
  return sum.result(c);
}

Geometry Ring::block(const Geometry& geo, int step) const {
  const int owner = (group_.rank() - step + group_.size()) % group_.size();
  Geometry here = geo;
  here.real = geo.real_in(geo.first + (owner - group_.rank()) * geo.tokens, geo.tokens);
  return here;
}

void Ring::rotate(Ctx& c, Source& source, Merge& sum) {
  const Geometry& geo = source.geo;
  const std::array blocks{slots_[0].view(block_shape(geo), geo.dtype), slots_[1].view(block_shape(geo), geo.dtype)};
  Fork side(c);
  {
    const Scope scope(c.scratch());
    const Heads k = keys(blocks[0], geo), v = values(blocks[0], geo);
    source.put(c, Projection::v, v), source.put(c, Projection::k, k);
  }
  Heads q;
  for (int step = 0; step < group_.size(); ++step) {
    const Tensor &here = blocks[static_cast<size_t>(step % 2)], &next = blocks[static_cast<size_t>((step + 1) % 2)];
    if (step + 1 < group_.size()) {
      side.after_parent();  // `next` is free: what was in it has been attended
      group_.exchange(side, {{}, here}, Ends::joined, {next, {}});
    }
    if (step == 0) q = source.get(c, Projection::q);  // while the first block travels
    const Scope scope(c.scratch());
    Ready local(block(geo, step), {q, keys(here, geo), values(here, geo)});
    sum.add(c, inner_->run(c, local));
    side.before_parent();
  }
}

}  // namespace zoetrope::attn
