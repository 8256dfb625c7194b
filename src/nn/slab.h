// Frames [T, H, W, C] cut along rows or columns over the ranks of a communicator: which part of them this rank holds,
// and convolutions over parts that give the bits of one over whole frames. A layer asks its slab and knows of no
// neighbours; on one rank the slab is whole frames and costs nothing. "Lines" are what the cut counts: rows or columns.
//
// Cuts fall between lines of the coarsest resolution, in even shares, the first ones larger. Of more ranks than lines
// the last have none: they compute nothing and issue the same collectives. What a rank reads beyond its share it either
//   fetches   from its neighbours, each line once: a causal convolution keeps them with its history; or
//   computes  itself, within a margin that is wide enough for all convolutions that follow. Nothing is exchanged.
#pragma once
#include <vector>

#include "comm/comm.h"
#include "comm/slot.h"
#include "mesh/shape.h"
#include "mesh/shard.h"
#include "ops/ops.h"

namespace zoetrope::nn {

class Slab {
 public:
  Slab() = default;  // whole frames

  // extent: lines at the coarsest resolution. margins: lines around the share at this resolution, at twice the
  // resolution, and so on; none: they are fetched.
  Slab(Comm& comm, VaeSplit split, int64_t extent, std::vector<int64_t> margins = {});

  // The slot that fetched lines and all_gather pass through from now on, reserved alike on all ranks for the largest
  // line that a convolution fetches and the largest that all_gather moves, in bytes (all frames of a chunk).
  void reserve(Slot& slot, int64_t fetched_line, int64_t gathered_line);

  bool whole() const { return comm_ == nullptr; }
  bool fetches() const { return !whole() && margins_.empty(); }  // from its neighbours what a convolution lacks
  bool empty() const { return !whole() && at().count == 0; }
  Slab finer() const;               // at twice the resolution
  Slab share(int64_t scale) const;  // without margin, at so many times the coarsest resolution

  Shape part(Shape frames) const;                                              // of frames of this shape
  Tensor part(Ctx& c, const Tensor& frames, const ConvOptions& o = {}) const;  // with what the convolution reads

  // A convolution of parts, in two steps. `o` and the shapes are those of a convolution of whole frames.
  //   surrounded: the part's shape [T, h, w, I] with the lines that are fetched for it.
  //   surround:   x and these lines, or x itself if there are none. Collective where lines are fetched.
  //   conv:       the part `to` of the result, y [T - kt + 1, h', w', O].
  Shape surrounded(const Shape& part, const ConvOptions& o) const;
  Tensor surround(Ctx& c, const Tensor& x, const ConvOptions& o) const;
  void conv(Ctx& c, const Tensor& surrounded, const Tensor& w, const Tensor& b, const ConvOptions& o, const Tensor& add,
            const Slab& to, const Tensor& y) const;

  // y: the part `to`, at twice the resolution, of a 3x3 convolution of the enlarged frame, its weights taken apart
  // (corner_weights, and the bias twice). surrounded: one frame, for a convolution with the zeros `around`.
  static constexpr ConvOptions around{.top = 1, .bottom = 1, .left = 1, .right = 1};
  void enlarge(Ctx& c, const Tensor& surrounded, const Tensor& w, const Tensor& b, const Slab& to,
               const Tensor& y) const;

  // x: the positions of this rank's part [1, h, w, C] -> those of the whole frame [H*W, C] on every rank.
  Tensor all_gather(Ctx& c, const Heads& x, const Shape& part) const;
  // part [T, h, w, C] -> whole frames on the first rank, undefined on the others; by way of a slot of this size.
  Tensor gather(Ctx& c, const Tensor& part, const Slot& slot) const;
  int64_t gather_bytes(const Shape& part, DType type) const;

 private:
  struct Halo {
    int64_t before = 0, after = 0;  // lines
  };

  Span share_of(int rank) const;
  Span at() const;  // share and margin
  int64_t end() const { return extent_ * scale_; }
  int64_t most(const Shape& part) const;     // elements of the largest rank's part
  Halo wanted(const ConvOptions& o) const;   // by a rank between two others
  Halo fetched(const ConvOptions& o) const;  // by this one
  ConvOptions of_part(ConvOptions o, const Slab& to) const;
  Heads lines(const Tensor& x, int64_t first, int64_t count) const;
  Sides exchange(Ctx& c, const Tensor& x, const Halo& halo) const;
  Tensor assemble(Ctx& c, const Tensor& parts, const Shape& part) const;

  Comm* comm_ = nullptr;
  int axis_ = 1;
  int64_t extent_ = 0, scale_ = 1;
  std::vector<int64_t> margins_;
  size_t level_ = 0;  // of margins_; beyond: none
  Slot slot_;
};

}  // namespace zoetrope::nn
