#include "mesh/shard.h"

#include <algorithm>

#include "base/error.h"

namespace zoetrope {

Span even_share(int64_t n, int64_t parts, int64_t index) {
  const int64_t small = n / parts, larger = n % parts;
  return {index * small + std::min(index, larger), small + (index < larger ? 1 : 0)};
}

TokenShard shard_tokens(int64_t tokens, int parts, int index) {
  require(tokens >= 0 && parts >= 1 && index >= 0 && index < parts, "tokens: part ", index, " of ", parts, " of ",
          tokens);
  const int64_t slot = (tokens + parts - 1) / parts, first = index * slot;
  return {slot, first, std::clamp<int64_t>(tokens - first, 0, slot)};
}

int64_t padded_tokens(int64_t tokens, int parts) { return shard_tokens(tokens, parts, 0).slot * parts; }

HeadSpread spread_heads(int64_t heads, int64_t kv_heads, int ranks) {
  require(ranks >= 1 && kv_heads >= 1 && heads >= kv_heads && heads % kv_heads == 0, "heads: ", heads, " over ",
          kv_heads, " key heads on ", ranks, " ranks");
  require(ranks <= heads, "ulysses: ", ranks, " ranks but only ", heads, " heads");
  const int64_t group = heads / kv_heads;
  HeadSpread spread;
  for (int64_t r = 0; r < ranks; ++r) {
    HeadShare share;
    if (ranks <= kv_heads) {
      const Span kv = even_share(kv_heads, ranks, r);
      share = {kv.first * group, kv.count * group, kv.first, kv.count};
    } else {
      int64_t kv = 0;
      while (even_share(ranks, kv_heads, kv).first + even_share(ranks, kv_heads, kv).count <= r) ++kv;
      const Span sharers = even_share(ranks, kv_heads, kv);
      const Span q = even_share(group, sharers.count, r - sharers.first);
      share = {kv * group + q.first, q.count, kv, 1};
    }
    spread.q_slot = std::max(spread.q_slot, share.q_count);
    spread.kv_slot = std::max(spread.kv_slot, share.kv_count);
    spread.ranks.push_back(share);
  }
  return spread;
}

}  // namespace zoetrope
