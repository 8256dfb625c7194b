// Every verb against closed-form values, on 1, 2, 3, 4, 6, 7 and 8 ranks.
#include "comm/verb_cases.h"

#include "comm/dry/world.h"
#include "support/words.h"

namespace zoetrope {
namespace {

struct Verbs : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Verbs, testing::Values(1, 2, 3, 4, 6, 7, 8));

TEST_P(Verbs, AllToAllTransposesRanksAndRows) { on_ranks(GetParam(), all_to_all_transposes_ranks_and_rows); }
TEST_P(Verbs, AllGatherConcatenatesInRankOrder) { on_ranks(GetParam(), all_gather_concatenates_in_rank_order); }
TEST_P(Verbs, AllGatherTakesTheRanksOwnRowsOfItsResult) {
  on_ranks(GetParam(), all_gather_takes_the_ranks_own_rows_of_its_result);
}
TEST_P(Verbs, AllReduceAddsInRankOrder) { on_ranks(GetParam(), all_reduce_adds_in_rank_order); }
TEST_P(Verbs, ExchangeReachesBothNeighbours) { on_ranks(GetParam(), exchange_reaches_both_neighbours); }
TEST_P(Verbs, GatherAndBroadcastTakeAnyRoot) { on_ranks(GetParam(), gather_and_broadcast_take_any_root); }
TEST_P(Verbs, EmptyTensorsTravelToo) { on_ranks(GetParam(), empty_tensors_travel_too); }
TEST_P(Verbs, SplitMakesIndependentGroups) { on_ranks(GetParam(), split_makes_independent_groups); }

TEST_P(Verbs, BarrierHoldsUntilAllHaveCome) {
  std::atomic<int> came = 0;
  on_ranks(GetParam(), [&](Ctx& c, Comm& world) {
    for (int round = 1; round <= 20; ++round) {
      ++came;
      world.barrier(c);
      EXPECT_GE(came.load(), round * world.size());
    }
  });
}

TEST_P(Verbs, ADryWorldRecordsWhatALiveOneSends) {
  on_ranks(GetParam(), [](Ctx& c, Comm& world) {
    std::vector<Record> live;
    world.session().log = &live;
    one_of_each(c, world);

    DryWorld dry_world(world.rank(), world.size());
    const auto dry = dry_world.comm();
    Rank rank;
    rank.pool = &one_thread();
    Ctx dry_context(rank);
    one_of_each(dry_context, *dry);

    EXPECT_EQ(live.size(), dry_world.log().size());
    for (size_t i = 0; i < live.size(); ++i) {
      const Record &a = live[i], &b = dry_world.log()[i];
      EXPECT_TRUE(a.verb == b.verb && a.axis == b.axis && a.bytes == b.bytes && a.shape == b.shape) << name(a.verb);
      EXPECT_EQ(dry->traffic(a.verb).bytes, world.traffic(a.verb).bytes);
    }
  });
}

TEST(Traffic, CountsBytesAsTheirFormulasSay) {
  on_ranks(4, [](Ctx& c, Comm& world) {
    one_of_each(c, world);  // x: 8 x 3 fp32 = 96 bytes, y: 10 fp32
    EXPECT_EQ(world.traffic(Verb::all_to_all).bytes, 96 / 4 * 3);
    EXPECT_EQ(world.traffic(Verb::all_gather).bytes, 96 * 3);
    const int64_t mine[] = {2, 3, 2, 3};  // of 10 elements
    const int64_t share = mine[world.rank()];
    EXPECT_EQ(world.traffic(Verb::all_reduce).bytes, 4 * (10 - share + 3 * share));
    EXPECT_EQ(world.traffic(Verb::gather).bytes, world.rank() == 3 ? 96 * 3 : 96);
    EXPECT_EQ(world.traffic(Verb::broadcast).bytes, world.rank() == 0 ? 96 * 3 : 96);
    const int64_t open[] = {96, 136, 136, 96};  // the first only receives x, the last only sends it
    EXPECT_EQ(world.traffic(Verb::exchange).bytes, open[world.rank()] + 136);
    EXPECT_EQ(world.traffic(Verb::exchange).calls, 2);
  });
}

TEST(Verb, OfASingleRankIsFree) {
  on_ranks(1, [](Ctx& c, Comm& world) {
    one_of_each(c, world);
    for (int v = 0; v < verb_count; ++v) EXPECT_EQ(world.traffic(static_cast<Verb>(v)).calls, 0);
    EXPECT_EQ(c.scratch().used(), 96u / 4 + 256 - 24 + 256);  // x and y alone
    const Tensor x = c.empty({2, 3}, DType::bf16);
    EXPECT_EQ(world.exchange(c, {{}, x}, Ends::joined).prev.raw(), x.raw());
    EXPECT_FALSE(world.exchange(c, {x, x}, Ends::open).prev.defined());
  });
}

TEST(Verb, RefusesWrongArgumentsByTheirWords) {
  on_ranks(2, [](Ctx& c, Comm& world) {
    const Tensor x = c.empty({3, 4}, DType::bf16), y = c.empty({4, 4}, DType::f32);
    EXPECT_EQ(words([&] { world.all_to_all(c, x); }), "all_to_all: 3 rows of [3, 4] do not divide by 2 ranks");
    EXPECT_EQ(words([&] { world.all_gather(c, x, y); }), "all_gather: out is [4, 4] fp32 but [6, 4] bf16 is needed");
    EXPECT_EQ(words([&] { world.all_reduce(c, x); }), "all_reduce: x is bf16, sums over ranks are fp32: cast it first");
    EXPECT_EQ(words([&] { world.all_to_all(c, y, y); }), "all_to_all: x and out overlap");
    EXPECT_EQ(words([&] { world.broadcast(c, y, 2); }), "broadcast: root 2 of 2 ranks");
    EXPECT_EQ(words([&] { world.split("a", {0, 1, 1}); }), "split: ranks must ascend");
    EXPECT_EQ(words([&] { world.split("a", {0, 2}); }), "split: rank 2 of 2 on axis world");
    world.barrier(c);  // and nobody is hurt
  });
}

}  // namespace
}  // namespace zoetrope
