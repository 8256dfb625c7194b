// Ring attention (Liu et al. 2023): queries stay, blocks of keys and values go round, and the partial outputs over one
// block each are merged by their LSE in fp32.
//
// P ranks, S' local tokens. A block is [S', 2M, D]: a token's keys, then its values. Two slots take turns: while the
// block in one is attended, the fork sends it on and receives the next into the other. In step i rank r attends the
// block of rank r - i; after P - 1 exchanges each rank has seen them all. A block without a real token adds nothing
// (its LSE is -inf). One collective a step: exchange on the ring, to the next rank.
#pragma once
#include <array>
#include <memory>

#include "attn/partial.h"
#include "attn/source.h"
#include "comm/comm.h"

namespace zoetrope::attn {

class Ring : public Attention {
 public:
  // Slots are taken from c.exchange(). The inner attention works on this rank alone: the fork is in use meanwhile.
  Ring(Ctx& c, Comm& group, std::unique_ptr<Attention> inner);

  void reserve(const Geometry& geo) override;
  Partial run(Ctx& c, Source& source) override;

 private:
  void rotate(Ctx& c, Source& source, Merge& sum);
  Geometry block(const Geometry& geo, int step) const;  // local queries, and the keys that are here in this step

  Comm& group_;
  std::unique_ptr<Attention> inner_;
  std::array<Slot, 2> slots_;
};

}  // namespace zoetrope::attn
