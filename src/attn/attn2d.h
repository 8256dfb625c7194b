// Attention2D: queries gathered in rows, keys and values in columns of a grid of ranks, one attention, and the partial
// outputs merged in rows. Each rank moves O(S / sqrt(P)) where a ring moves O(S).
//
// R rows of C ranks, S' tokens a rank. Rank (i, j) holds part i*C + j of the tokens. In words, for R = 2, C = 3:
//
//     parts       row group i: same row, C ranks       column group j: same column, R ranks
//     0 1 2       Q of rank (1, 0) is gathered from    K, V of rank (1, 0) are gathered from
//     3 4 5       parts 3 4 5: neighbours in the       parts 0 3: C parts apart in the sequence,
//                 sequence, one after another          in ascending order
//
//   q slot   [C, S', N, D]     chunk j' from rank (i, j')
//   kv slot  [R, S', 2M, D]    chunk i' from rank (i', j); a token's keys, then its values: one collective for both
//   attention of C S' queries over R S' keys; real keys come first, since parts fill up in the order of the sequence
//   output   C chunks of o [S', N, D] and lse [N, S']: chunk j' goes to rank (i, j'), which merges the C it receives.
//            They cover all keys, because the columns do.
//
// Collectives a layer: all_gather of K/V on the column, all_gather of Q on the row, all_to_all on the row. R = 1 has no
// first one, C = 1 neither of the others (and no merge: it is bit-equal to one rank).
//
// Pipelined: the rank's own queries attend its own keys while the gathers are on their way, then the rest in up to four
// calls: own queries over the keys before and after, the queries before and after over all keys. What it attends for
// itself goes straight into the fp32 sum; its own chunk of the message stays unused.
#pragma once
#include <memory>

#include "attn/partial.h"
#include "attn/source.h"
#include "comm/comm.h"

namespace zoetrope::attn {

class Attention2d : public Attention {
 public:
  // Slots are taken from c.exchange(). The inner attention works on this rank alone.
  Attention2d(Ctx& c, Comm& row, Comm& col, std::unique_ptr<Attention> inner, bool pipelined = false);

  void reserve(const Geometry& geo) override;
  Partial run(Ctx& c, Source& source) override;

 private:
  struct Part {
    int from, to;  // chunks of a gathered slot
  };

  Shape q_shape(const Geometry& geo) const { return {row_.size() * geo.tokens, geo.heads, geo.width}; }
  Shape kv_shape(const Geometry& geo) const { return {col_.size() * geo.tokens, 2 * geo.key_heads, geo.width}; }
  Chunks::Size output_size(const Geometry& geo) const;
  int64_t real_keys(const Geometry& geo, Part keys) const;

  Partial pipelined(Ctx& c, Source& source);
  void gather(Ctx& c, Fork& side, Source& source);
  Partial attend(Ctx& c, const Geometry& geo, Part queries, Part keys);
  void attend_own(Ctx& c, const Geometry& geo, Part keys, Merge& sum);
  void attend_for_row(Ctx& c, const Geometry& geo, Part queries);
  void merge_row(Ctx& c, const Geometry& geo, Merge& sum, int skip = -1);

  Comm &row_, &col_;
  std::unique_ptr<Attention> inner_;
  bool pipelined_;
  Slot q_, kv_, send_, receive_;
};

}  // namespace zoetrope::attn
