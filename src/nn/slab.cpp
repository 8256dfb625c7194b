#include "nn/slab.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace zoetrope::nn {
namespace {

// The zeros that a convolution wants before and after the lines.
std::pair<int&, int&> pads(ConvOptions& o, int axis) {
  return axis == 1 ? std::pair<int&, int&>(o.top, o.bottom) : std::pair<int&, int&>(o.left, o.right);
}

}  // namespace

Slab::Slab(Comm& comm, VaeSplit split, int64_t extent, std::vector<int64_t> margins)
    : comm_(&comm), axis_(split == VaeSplit::height ? 1 : 2), extent_(extent), margins_(std::move(margins)) {}

void Slab::reserve(Slot& slot, int64_t fetched_line, int64_t gathered_line) {
  slot.reserve(std::max(4 * fetched_line, comm_->size() * share_of(0).count * gathered_line));
  slot_ = slot;
}

Slab Slab::finer() const {
  Slab slab = *this;
  slab.scale_ *= 2, ++slab.level_;
  return slab;
}

Slab Slab::share(int64_t scale) const {
  Slab slab = *this;
  slab.scale_ = scale, slab.level_ = margins_.size();
  return slab;
}

Span Slab::share_of(int rank) const {
  const Span share = even_share(extent_, comm_->size(), rank);
  return {share.first * scale_, share.count * scale_};
}

Span Slab::at() const {
  const Span share = share_of(comm_->rank());
  if (share.count == 0 || level_ >= margins_.size()) return share;
  const int64_t first = std::max<int64_t>(0, share.first - margins_[level_]);
  return {first, std::min(end(), share.first + share.count + margins_[level_]) - first};
}

Slab::Halo Slab::wanted(const ConvOptions& options) const {
  if (!margins_.empty()) return {};
  ConvOptions o = options;
  const auto [before, after] = pads(o, axis_);
  return {before, after};
}

Slab::Halo Slab::fetched(const ConvOptions& o) const {
  const Halo halo = wanted(o);
  const Span here = at();
  if (here.count == 0) return {};
  return {here.first > 0 ? halo.before : 0, here.first + here.count < end() ? halo.after : 0};
}

// Output line i of the whole reads from line i * stride - before of the input on; a part numbers both from its
// own first ones.
ConvOptions Slab::of_part(ConvOptions o, const Slab& to) const {
  const Halo halo = fetched(o);
  const Span in = at(), out = to.at();
  auto [before, after] = pads(o, axis_);
  before += static_cast<int>(in.first - halo.before - o.stride * out.first);
  after += static_cast<int>(o.stride * (out.first + out.count) - (in.first + in.count + halo.after));
  return o;
}

int64_t Slab::most(const Shape& part) const { return share_of(0).count * part.with(axis_, 1).size(); }

Heads Slab::lines(const Tensor& x, int64_t first, int64_t count) const {
  require(first >= 0 && count >= 0 && first + count <= x.dim(axis_), "slab: lines [", first, ", ", first + count,
          ") of ", x.shape());
  const int64_t tokens = axis_ == 1 ? x.dim(0) : x.dim(0) * x.dim(1);
  const int64_t line = axis_ == 1 ? x.dim(2) * x.dim(3) : x.dim(3);
  return {x, first * line, x.dim(axis_) * line, tokens, count, line};
}

Shape Slab::part(Shape frames) const { return whole() ? frames : frames.with(axis_, at().count); }

Tensor Slab::part(Ctx& c, const Tensor& frames, const ConvOptions& o) const {
  if (whole()) return frames;
  const Halo halo = fetched(o);
  const Span here = at();
  const Tensor x = c.empty(surrounded(part(frames.shape()), o), frames.dtype());
  copy_heads(c, lines(frames, here.first - halo.before, x.dim(axis_)), lines(x, 0, x.dim(axis_)));
  return x;
}

Shape Slab::surrounded(const Shape& part, const ConvOptions& o) const {
  if (whole()) return part;
  const Halo halo = fetched(o);
  return part.with(axis_, halo.before + part[axis_] + halo.after);
}

Tensor Slab::surround(Ctx& c, const Tensor& x, const ConvOptions& o) const {
  if (whole()) return x;
  const Halo all = wanted(o), halo = fetched(o);
  if (all.before + all.after == 0) return x;
  const Sides got = exchange(c, x, all);
  if (halo.before + halo.after == 0) return x;
  const Tensor y = c.empty(surrounded(x.shape(), o), x.dtype());
  const int64_t own = x.dim(axis_);
  copy_heads(c, lines(x, 0, own), lines(y, halo.before, own));
  if (halo.before) copy_heads(c, lines(got.prev, 0, halo.before), lines(y, 0, halo.before));
  if (halo.after) copy_heads(c, lines(got.next, 0, halo.after), lines(y, halo.before + own, halo.after));
  return y;
}

// Ranks without a part, and those beside them, send and receive what nobody reads: all counts are equal.
Sides Slab::exchange(Ctx& c, const Tensor& x, const Halo& halo) const {
  const Shape line = x.shape().with(axis_, 1);
  const Tensor room = slot_.view({4, std::max(halo.before, halo.after) * line.size()}, x.dtype());
  const auto message = [&](int64_t i, int64_t count) {
    return count ? room.row(i).rows(0, count * line.size()).view(line.with(axis_, count)) : Tensor();
  };
  const Sides send{message(0, halo.after), message(1, halo.before)};
  const int64_t own = x.dim(axis_);
  if (own && halo.after) copy_heads(c, lines(x, 0, halo.after), lines(send.prev, 0, halo.after));
  if (own && halo.before) copy_heads(c, lines(x, own - halo.before, halo.before), lines(send.next, 0, halo.before));
  return comm_->exchange(c, send, Ends::open, {message(2, halo.before), message(3, halo.after)});
}

void Slab::conv(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, const ConvOptions& o, const Tensor& add,
                const Slab& to, const Tensor& y) const {
  if (whole()) return conv_into(c, x, w, b, o, add, y);
  if (!to.empty()) conv_into(c, x, w, b, of_part(o, to), add, y);
}

// Row a of a corner's four pixels at a time: the convolution's lines are then enlarged rows, with a pixel more at each
// end. A part has corners on its outer sides, too, that miss what they should read; they are left out like the frame's.
void Slab::enlarge(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, const Slab& to, const Tensor& y) const {
  require(x.dim(0) == 1, "slab: ", x.dim(0), " frames to enlarge, one at a time");
  if (y.size() == 0) return;
  const int64_t skipped = whole() ? 0 : to.at().first - 2 * (at().first - fetched(around).before);
  const int64_t top = axis_ == 1 ? skipped : 0, left = axis_ == 2 ? skipped : 0;
  const int64_t rows = y.dim(1), columns = y.dim(2), outputs = y.dim(3);
  for (int64_t a = 0; a < 2; ++a) {
    const Scope scope(c.scratch());
    const Tensor z = zoetrope::conv(c, x, w.row(a), b, around, {});  // [1, H + 1, W + 1, 2 O]
    const int64_t corner = (top + 2 - a) / 2, first = 2 * corner - 1 + a - top, line = z.dim(2) * 2 * outputs;
    const int64_t count = (rows - first + 1) / 2;
    copy_heads(c, {z, corner * line + (left + 1) * outputs, line, count, 1, columns * outputs},
               {y, first * columns * outputs, 2 * columns * outputs, count, 1, columns * outputs});
  }
}

Tensor Slab::all_gather(Ctx& c, const Heads& x, const Shape& part) const {
  const Tensor room = slot_.view({comm_->size(), most(part)}, x.dtype());
  const Tensor own = room.rows(comm_->rank(), comm_->rank() + 1);
  copy_heads(c, x, as_heads(own.row(0).rows(0, part.size()).view({x.tokens, x.heads * x.width}), x.width));
  const Tensor frame = assemble(c, comm_->all_gather(c, own, room), part);
  return frame.view({frame.size() / frame.dim(3), frame.dim(3)});
}

Tensor Slab::gather(Ctx& c, const Tensor& part, const Slot& slot) const {
  if (whole()) return part;
  require(part.rank() == 4 && part.dim(axis_) == at().count, "slab: ", part.shape(), " is not a part of ", at().count,
          " lines");
  const int64_t ranks = comm_->size();
  const Tensor room = slot.view({ranks + 1, most(part.shape())}, part.dtype()), own = room.rows(ranks, ranks + 1);
  copy(c, part, own.row(0).rows(0, part.size()).view(part.shape()));
  const Tensor parts = comm_->gather(c, own, 0, room.rows(0, ranks));
  return parts.defined() ? assemble(c, parts, part.shape()) : Tensor();
}

int64_t Slab::gather_bytes(const Shape& part, DType type) const {
  return whole() ? 0 : (comm_->size() + 1) * most(part) * bytes_of(type);
}

// parts [P, most]: what of it belongs to a rank comes first -> whole frames
Tensor Slab::assemble(Ctx& c, const Tensor& parts, const Shape& part) const {
  const Tensor frames = c.empty(part.with(axis_, end()), parts.dtype());
  for (int r = 0; r < comm_->size(); ++r) {
    const Span share = share_of(r);
    if (share.count == 0) continue;
    const Shape shape = part.with(axis_, share.count);
    copy_heads(c, lines(parts.row(r).rows(0, shape.size()).view(shape), 0, share.count),
               lines(frames, share.first, share.count));
  }
  return frames;
}

}  // namespace zoetrope::nn
