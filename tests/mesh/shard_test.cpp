// Tokens and heads in equal slots.
#include "mesh/shard.h"

#include <gtest/gtest.h>

#include "support/words.h"

namespace zoetrope {
namespace {

TEST(TokenShards, CoverEveryTokenOnceAndInOrder) {
  for (const int64_t tokens : {0, 1, 5, 1000, 1007, 56700, 75600})
    for (const int parts : {1, 2, 3, 4, 6, 7, 8, 72}) {
      int64_t next = 0;
      for (int i = 0; i < parts; ++i) {
        const TokenShard shard = shard_tokens(tokens, parts, i);
        EXPECT_EQ(shard.slot, shard_tokens(tokens, parts, 0).slot);
        EXPECT_TRUE(shard.real == 0 || shard.first == next);
        next += shard.real;
      }
      EXPECT_EQ(next, tokens) << parts;
      EXPECT_LT(padded_tokens(tokens, parts) - tokens, parts);
    }
}

TEST(TokenShards, MayHoldNothingReal) {
  const int64_t real[] = {1, 1, 1, 1, 1, 0, 0, 0};  // 5 tokens on 8 ranks
  for (int i = 0; i < 8; ++i) EXPECT_EQ(shard_tokens(5, 8, i).real, real[i]);
  EXPECT_EQ(padded_tokens(56700, 8), 56704);
  EXPECT_EQ(shard_tokens(56700, 8, 7).real, 7084);
}

TEST(SpreadHeads, GivesFortyHeadsToThreeRanks) {
  const HeadSpread spread = spread_heads(40, 40, 3);
  EXPECT_EQ(spread.q_slot, 14);
  EXPECT_EQ(spread.kv_slot, 14);
  EXPECT_EQ(spread.ranks, (std::vector<HeadShare>{{0, 14, 0, 14}, {14, 13, 14, 13}, {27, 13, 27, 13}}));
}

TEST(SpreadHeads, KeepsGroupsTogether) {
  const HeadSpread spread = spread_heads(12, 6, 4);  // pairs of query heads
  EXPECT_EQ(spread.ranks, (std::vector<HeadShare>{{0, 4, 0, 2}, {4, 4, 2, 2}, {8, 2, 4, 1}, {10, 2, 5, 1}}));
  EXPECT_EQ(spread.q_slot, 4);
}

TEST(SpreadHeads, RepeatsKeyHeadsOnMoreRanks) {
  const HeadSpread spread = spread_heads(8, 2, 8);
  for (int r = 0; r < 8; ++r) EXPECT_EQ(spread.ranks[static_cast<size_t>(r)], (HeadShare{r, 1, r / 4, 1}));
  const HeadSpread uneven = spread_heads(8, 2, 3);
  EXPECT_EQ(uneven.ranks, (std::vector<HeadShare>{{0, 2, 0, 1}, {2, 2, 0, 1}, {4, 4, 1, 1}}));
  EXPECT_EQ(uneven.q_slot, 4);
}

TEST(SpreadHeads, CoversEveryQueryHeadWithItsKeyHead) {
  for (const int64_t kv : {1, 2, 3, 5, 8, 40})
    for (const int64_t group : {1, 2, 4, 7})
      for (int ranks = 1; ranks <= kv * group; ++ranks) {
        const HeadSpread spread = spread_heads(kv * group, kv, ranks);
        int64_t next = 0;
        for (const HeadShare& share : spread.ranks) {
          ASSERT_EQ(share.q_first, next);
          ASSERT_GE(share.q_count, 1);
          ASSERT_LE(share.q_count, spread.q_slot);
          ASSERT_LE(share.kv_count, (kv + ranks - 1) / ranks);  // slots of ceil(M/P)
          ASSERT_EQ(share.q_count % share.kv_count, 0);
          for (int64_t q = 0; q < share.q_count; ++q)  // query head n reads key head n / (N/M)
            ASSERT_EQ((share.q_first + q) / group, share.kv_first + q / (share.q_count / share.kv_count));
          next += share.q_count;
        }
        ASSERT_EQ(next, kv * group);
      }
}

TEST(SpreadHeads, RefusesMoreRanksThanHeads) {
  EXPECT_EQ(words([] { spread_heads(6, 6, 8); }), "ulysses: 8 ranks but only 6 heads");
  EXPECT_EQ(words([] { spread_heads(6, 4, 2); }), "heads: 6 over 4 key heads on 2 ranks");
}

}  // namespace
}  // namespace zoetrope
