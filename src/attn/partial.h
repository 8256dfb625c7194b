// Partial outputs on their way and at their end: packed with their LSE into one message, summed up in fp32.
#pragma once
#include "attn/attention.h"
#include "comm/slot.h"

namespace zoetrope::attn {

// A message of P equal chunks, one a rank: o [S', H, D], then lse [H, S'] fp32, each rounded up to 16 bytes. H is the
// same on all ranks; a sender with fewer heads fills the first ones.
class Chunks {
 public:
  struct Size {
    int ranks;
    int64_t tokens, heads, width;  // S', H, D
    DType dtype;

    int64_t output_bytes() const;
    int64_t chunk_bytes() const;
    int64_t bytes() const { return ranks * chunk_bytes(); }
  };

  Chunks(const Slot& slot, const Size& size);

  const Tensor& message() const { return message_; }  // u8 [P, bytes of a chunk]
  Partial at(int rank) const;

 private:
  Size size_;
  Tensor message_;
};

// Tokens [first, first + S') of `from` (o [S, n, D], lse [n, S]) into the first n heads of a chunk.
void put(Ctx& c, const Partial& from, int64_t first, const Partial& chunk);

// Sums up partial outputs of the same queries over disjoint keys. Each part comes in the compute type, sums are fp32
// and rounded once, at the end.
class Merge {
 public:
  Merge(Ctx& c, const Geometry& geo);     // nothing seen yet: o = 0, lse = -inf. Takes S' N D fp32 of scratch.
  void add(Ctx& c, const Partial& part);  // o [S', N, D], lse [N, S']
  Partial result(Ctx& c) const;

 private:
  DType dtype_;
  Partial sum_;
};

}  // namespace zoetrope::attn
