// How tokens and heads are spread over ranks: equal slots everywhere, so that every collective has equal counts; what a
// slot holds beyond its rank's share is layout only and never read.
#pragma once
#include <cstdint>
#include <vector>

namespace zoetrope {

// One of P parts of S tokens. Tokens are padded on the right to a multiple of P; a part may hold none that are real.
struct TokenShard {
  int64_t slot = 0;   // tokens a part, ceil(S/P)
  int64_t first = 0;  // global index of its first token, padding included
  int64_t real = 0;   // those that are not padding; they come first
};
TokenShard shard_tokens(int64_t tokens, int parts, int index);
int64_t padded_tokens(int64_t tokens, int parts);  // P * ceil(S/P)

// Which heads each of P ranks computes. N query heads, M key heads, N a multiple of M: query head n reads key head
// n / (N/M). Within a rank each of its key heads serves equally many of its query heads.
//   P <= M: whole groups, 40 on 3 ranks -> 14, 13, 13 in slots of 14.
//   P >  M: each rank has one key head, repeated on floor(P/M) or ceil(P/M) ranks, and a part of its query heads.
struct HeadShare {
  int64_t q_first = 0, q_count = 0, kv_first = 0, kv_count = 0;
  friend bool operator==(const HeadShare&, const HeadShare&) = default;
};
struct HeadSpread {
  int64_t q_slot = 0, kv_slot = 0;  // the largest share
  std::vector<HeadShare> ranks;
};
HeadSpread spread_heads(int64_t heads, int64_t kv_heads, int ranks);  // refuses P > N

// [first, first + count) of n things for the index-th of `parts`, as even as possible, the first ones larger.
struct Span {
  int64_t first = 0, count = 0;
  friend bool operator==(const Span&, const Span&) = default;
};
Span even_share(int64_t n, int64_t parts, int64_t index);

}  // namespace zoetrope
