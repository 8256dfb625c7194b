// Rank formulas, groups, legality and the layout that is taken when nobody chooses.
#include "mesh/shape.h"

#include <gtest/gtest.h>

#include "support/words.h"

namespace zoetrope {
namespace {

using Ranks = std::vector<int>;

TEST(MeshShape, PlacesRanksAsTheTableSays) {
  const MeshShape shape{.cfg = 2, .tp = 2, .rows = 2, .cols = 3, .ulysses = 2};  // 48 ranks
  struct Row {
    int rank;
    MeshPlace place;
  };
  const Row table[] = {
      // rank, {cfg, tp, row, col, ulysses}
      {0, {0, 0, 0, 0, 0}},  {1, {0, 0, 0, 0, 1}},  {2, {0, 0, 0, 1, 0}},  {5, {0, 0, 0, 2, 1}},
      {6, {0, 0, 1, 0, 0}},  {11, {0, 0, 1, 2, 1}}, {12, {0, 1, 0, 0, 0}}, {23, {0, 1, 1, 2, 1}},
      {24, {1, 0, 0, 0, 0}}, {43, {1, 1, 1, 0, 1}}, {47, {1, 1, 1, 2, 1}},
  };
  for (const Row& row : table) {
    EXPECT_EQ(place_of(shape, row.rank), row.place) << row.rank;
    EXPECT_EQ(rank_of(shape, row.place), row.rank);
  }
  EXPECT_EQ(sequence_index(shape, place_of(shape, 43)), 7);
}

TEST(MeshShape, GroupsDifferInOneCoordinate) {
  const MeshShape shape{.cfg = 2, .rows = 2, .cols = 2, .ulysses = 2};  // 16 ranks
  EXPECT_EQ(group_of(shape, Axis::cfg, 5), (Ranks{5, 13}));
  EXPECT_EQ(group_of(shape, Axis::tp, 5), (Ranks{5}));
  EXPECT_EQ(group_of(shape, Axis::row, 5), (Ranks{5, 7}));      // same row, both columns
  EXPECT_EQ(group_of(shape, Axis::col, 5), (Ranks{1, 5}));      // same column, both rows
  EXPECT_EQ(group_of(shape, Axis::ulysses, 5), (Ranks{4, 5}));  // neighbours
  EXPECT_EQ(group_of(shape, Axis::sequence, 13), (Ranks{8, 9, 10, 11, 12, 13, 14, 15}));

  const MeshShape ring{.tp = 2, .ring = 3, .ulysses = 1};
  EXPECT_EQ(group_of(ring, Axis::col, 4), (Ranks{3, 4, 5}));
  EXPECT_EQ(group_of(ring, Axis::row, 4), (Ranks{4}));
  EXPECT_EQ(group_of(ring, Axis::tp, 4), (Ranks{1, 4}));
}

TEST(MeshShape, GroupsOfEveryLegalMeshPartitionTheWorld) {
  for (const int n : {1, 2, 3, 4, 6, 7, 8, 12})
    for (const MeshShape& shape : legal_meshes(n))
      for (const Axis axis : {Axis::cfg, Axis::tp, Axis::row, Axis::col, Axis::ulysses, Axis::sequence})
        for (int rank = 0; rank < n; ++rank) {
          const Ranks group = group_of(shape, axis, rank);
          ASSERT_EQ(rank_of(shape, place_of(shape, rank)), rank);
          ASSERT_EQ(std::count(group.begin(), group.end(), rank), 1);
          for (const int other : group) ASSERT_EQ(group_of(shape, axis, other), group) << text_of(shape);
        }
}

TEST(LegalMeshes, Are95For1To8RanksWithout5And7) {
  const std::pair<int, size_t> counts[] = {{1, 1}, {2, 6}, {3, 5}, {4, 18}, {6, 26}, {8, 39}};
  size_t total = 0;
  for (const auto& [ranks, count] : counts) {
    EXPECT_EQ(legal_meshes(ranks).size(), count) << ranks;
    total += count;
  }
  EXPECT_EQ(total, 95u);
  EXPECT_EQ(legal_meshes(7).size(), 5u);
}

TEST(LegalMeshes, AreAllDifferentAndRight) {
  const auto all = legal_meshes(8);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].world(), 8);
    EXPECT_EQ(objection(all[i]), "");
    for (size_t j = 0; j < i; ++j) EXPECT_NE(text_of(all[i]), text_of(all[j]));
  }
  for (const MeshShape& shape : legal_meshes(8, {.heads = 4, .kv_heads = 2})) {
    EXPECT_LE(shape.ulysses * shape.tp, 4) << text_of(shape);
    EXPECT_LE(shape.tp, 2) << text_of(shape);
  }
}

TEST(Check, ListsLayoutsThatWouldWork) {
  EXPECT_EQ(words([] { check({.cfg = 2, .ulysses = 4}, 6); }),
            "cfg 2 x ulysses 4 = 8 ranks, but 6 were started; layouts for 6: cfg 2 x ulysses 3, cfg 1 x ulysses 6, "
            "cfg 1 x tp 2 x ulysses 3, cfg 2 x tp 3, cfg 1 x tp 3 x ulysses 2, cfg 1 x tp 6, ...");
  EXPECT_EQ(words([] { check({.cfg = 2}, 1); }), "cfg 2 = 2 ranks, but 1 was started; layouts for 1: cfg 1");
  EXPECT_EQ(words([] { check({.ring = 2, .rows = 2, .cols = 2}, 4); }).substr(0, 58),
            "ring 2 and attn2d 2x2 both cut the context: choose one; la");
  EXPECT_EQ(words([] { check({.ulysses = 8}, 8, {.heads = 6}); }),
            "ulysses 8 is more than the 6 heads; layouts for 8: cfg 2 x ulysses 4, cfg 2 x tp 2 x ulysses 2, "
            "cfg 2 x ring 2 x ulysses 2, cfg 2 x attn2d 1x2 x ulysses 2, cfg 2 x attn2d 2x1 x ulysses 2, "
            "cfg 2 x ring 4, ...");
  EXPECT_NO_THROW(check({.cfg = 2, .rows = 3, .cols = 3, .ulysses = 4, .vae = 8}, 72, {.heads = 40}));
}

TEST(Check, RefusesWhatCannotBeByItsWords) {
  const auto why = [](const MeshShape& shape, const MeshHeads& heads = {}) { return objection(shape, heads); };
  EXPECT_EQ(why({.cfg = 0}), "cfg 0: a degree is 1 or more");
  EXPECT_EQ(why({.ulysses = -3}), "ulysses -3: a degree is 1 or more");
  EXPECT_EQ(why({.rows = 0, .cols = 2}), "attn2d rows 0: a degree is 1 or more");
  EXPECT_EQ(why({.cfg = 3}), "cfg 3: there are two predictions a step, so 1 or 2");
  EXPECT_EQ(why({.tp = 3}, {.heads = 40}), "tp 3 does not divide 40 heads and 40 key heads");
  EXPECT_EQ(why({.tp = 4}, {.heads = 8, .kv_heads = 2}), "tp 4 does not divide 8 heads and 2 key heads");
  EXPECT_EQ(why({.tp = 2, .ulysses = 6}, {.heads = 8, .kv_heads = 2}),
            "ulysses 6 is more than the 4 heads of a tp rank");
  EXPECT_EQ(why({.ulysses = 8}, {.heads = 8, .kv_heads = 2}), "");  // key heads are repeated
  EXPECT_EQ(why({.cfg = 2, .ulysses = 4, .vae = 6}), "vae 6 straddles the CFG halves of 4 ranks: at most 4, or all 8");
  EXPECT_EQ(why({.cfg = 2, .ulysses = 4, .vae = 8}), "");
  EXPECT_EQ(why({.cfg = 2, .ulysses = 4, .vae = 3}), "");
  EXPECT_EQ(why({.ulysses = 4, .vae = 5}), "vae 5: more than the 4 ranks there are");
  EXPECT_EQ(why({.ulysses = 4, .vae = -1}), "vae -1: a degree is 1 or more, or auto");
}

TEST(VaeRanks, AutoIsTheWorldOrPartOfOneHalf) {
  EXPECT_EQ((MeshShape{}).vae_ranks(), 1);
  EXPECT_EQ((MeshShape{.cfg = 2, .ulysses = 4}).vae_ranks(), 8);
  EXPECT_EQ((MeshShape{.cfg = 2, .ulysses = 5}).vae_ranks(), 5);
  EXPECT_EQ((MeshShape{.ulysses = 9}).vae_ranks(), 8);
  EXPECT_EQ((MeshShape{.cfg = 2, .rows = 3, .cols = 3, .ulysses = 4}).vae_ranks(), 8);
  EXPECT_EQ((MeshShape{.cfg = 2, .ulysses = 4, .vae = 2}).vae_ranks(), 2);
}

TEST(DefaultMesh, FollowsThePublishedRule) {
  const MeshHeads wan{.heads = 40}, small{.heads = 4};
  const auto text = [](int ranks, double guidance, const MeshHeads& heads, int node = 0) {
    return text_of(default_mesh(ranks, guidance, heads, node));
  };
  EXPECT_EQ(text(1, 4, wan), "cfg 1");
  EXPECT_EQ(text(8, 4, wan), "cfg 2 x ulysses 4");
  EXPECT_EQ(text(8, 1, wan), "cfg 1 x ulysses 8");
  EXPECT_EQ(text(7, 4, wan), "cfg 1 x ulysses 7");
  EXPECT_EQ(text(72, 4, wan), "cfg 2 x ulysses 36");
  EXPECT_EQ(text(72, 4, wan, 4), "cfg 2 x attn2d 3x3 x ulysses 4");
  EXPECT_EQ(text(16, 4, small), "cfg 2 x attn2d 2x1 x ulysses 4");
  EXPECT_EQ(text(48, 4, small), "cfg 2 x attn2d 3x2 x ulysses 4");
  EXPECT_EQ(text(7, 1, small), "cfg 1 x attn2d 7x1");
  for (int n = 1; n <= 128; ++n) EXPECT_NO_THROW(check(default_mesh(n, 4, wan, 8), n, wan)) << n;
}

}  // namespace
}  // namespace zoetrope
