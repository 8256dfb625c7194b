// Tensor parallelism (Shoeybi et al., "Megatron-LM", arXiv:1909.08053): each rank of a group holds some outputs (rows)
// of one matrix and the same inputs (columns) of the next one, whose products it sums over the ranks. All ranks hold
// all tokens. Sums are fp32 and in the order of the ranks, so all ranks go on with the same bits. Axes: S tokens, N
// heads of all ranks, N' of this one, D head width.
#pragma once
#include <vector>

#include "comm/comm.h"
#include "comm/slot.h"
#include "nn/linear.h"

namespace zoetrope::nn {

class TensorParallel {
 public:
  // `group` null: one rank, for which all below is the plain op. What is summed lies in a slot of c.exchange().
  TensorParallel(Ctx& c, Comm* group) : group_(group), slot_(c.exchange()) {}

  int size() const { return group_ ? group_->size() : 1; }

  // Of n heads, say: as even as they go, the first ranks have one more, the last maybe none.
  int64_t own(int64_t n) const;
  // This rank's outputs or inputs of n, in whole units (a head's width) shared like that.
  Slice outputs(int64_t n, int64_t unit) const { return share(0, n, unit); }
  Slice inputs(int64_t n, int64_t unit) const { return share(1, n, unit); }
  // The largest unit up to 16, which matrix units like, of which each rank gets one; 1 where n < size.
  int64_t unit_of(int64_t n) const;

  void reserve(int64_t numbers);  // in the largest sum; the largest first, see Slot

  // The whole matrix's x w^T + b, rounded once to x's type. x[S, I'], part: [O, I'] -> [S, O]; I' may be 0.
  // Good until the next sum.
  Tensor sum(Ctx& c, const Linear& part, const Tensor& x) const;

  // Norms each x over the N heads of its tokens (D N = columns) and rotates it, see ops norm_rope. One collective for
  // all of them: the sums of squares, [parts, S].
  struct Normed {
    Heads x;   // [S, N', D]
    Tensor w;  // [N' D]
    HeadParts out;
  };
  void norm_rope(Ctx& c, const std::vector<Normed>& parts, int64_t columns, float eps, const Rope* rope) const;

 private:
  Slice share(int axis, int64_t n, int64_t unit) const;

  Comm* group_;
  Slot slot_;
};

}  // namespace zoetrope::nn
