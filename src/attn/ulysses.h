// Ulysses (Jacobs et al. 2023): ranks that hold a part of the tokens, all heads each, swap them for all tokens of a
// part of the heads, attend as one device would, and swap back. Bit-equal to one rank: a head's attention does not
// depend on which heads are computed beside it.
//
// P ranks, S' local tokens, S = P S'. Heads go in equal slots of Q = ceil(N/P) query and K = ceil(M/P) key heads
// (mesh/shard.h; any count that P does not exceed), so counts are equal everywhere; what a slot holds beyond its rank's
// share is never read. A message is [P, S', H, D]: chunk p holds the local tokens of rank p's heads, a token's parts
// side by side; who norms and rotates writes them there. Received chunks follow each other in the order of the tokens,
// so each part of them is one strided view [S, own heads, D]; padding stays at the end.
//
// Exchanges a layer, all all_to_all on the group:
//   separate   V, Q, K, each sent on the fork while the next is projected; output       3 + 1
//   kv_packed  Q, then K and V side by side (grouped queries: Q is the longer one)      2 + 1
//   packed     Q, K, V side by side, from one product                                   1 + 1
// The output takes its LSE along: [S', Q, D] and [Q, S'] fp32 in one chunk.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "attn/partial.h"
#include "attn/source.h"
#include "comm/comm.h"
#include "mesh/shard.h"

namespace zoetrope::attn {

enum class UlyssesForm : uint8_t { separate, kv_packed, packed };

class Ulysses : public Attention {
 public:
  // Slots are taken from c.exchange(). The inner attention sees all tokens of the group and this rank's heads.
  Ulysses(Ctx& c, Comm& group, std::unique_ptr<Attention> inner, UlyssesForm form = UlyssesForm::separate);

  void reserve(const Geometry& geo) override;  // refuses more ranks than query heads
  Partial run(Ctx& c, Source& source) override;

 private:
  struct Lane {
    std::vector<Projection> parts;  // side by side in a message
    Slot send, receive;
  };

  static std::vector<std::vector<Projection>> messages(UlyssesForm form);
  static Span share(const HeadShare& of, Projection part);
  static int64_t heads_a_token(const Lane& lane, const HeadSpread& spread);

  HeadSpread spread(const Geometry& geo) const;
  Geometry gathered(const Geometry& geo) const;  // what the inner attention sees
  Chunks::Size output_size(const Geometry& geo) const;
  HeadParts places(const HeadSpread& heads, Projection part, const Heads& columns) const;
  void send(Ctx& c, Fork& side, Source& source, const Lane& lane, Operands& received);
  void send_back(Ctx& c, const Partial& mine, const Geometry& geo, const Partial& out);

  Comm& group_;
  std::unique_ptr<Attention> inner_;
  std::vector<Lane> lanes_;
  const Lane* back_ = nullptr;  // the one of Q, free again when the output travels
};

}  // namespace zoetrope::attn
