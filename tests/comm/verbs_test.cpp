// Every verb against closed-form values, on 1, 2, 3, 4, 6, 7 and 8 ranks.
#include "comm/dry/world.h"
#include "comm/ranks.h"
#include "support/words.h"

namespace zoetrope {
namespace {

struct Verbs : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Verbs, testing::Values(1, 2, 3, 4, 6, 7, 8));

// What rank r holds at (i, j), exact in fp32.
int64_t value(int64_t rank, int64_t i, int64_t j) { return rank * 10000 + i * 100 + j; }

TEST_P(Verbs, AllToAllTransposesRanksAndRows) {
  on_ranks(GetParam(), [](Ctx& c, Comm& world) {
    const int me = world.rank();
    const Tensor x = filled(c, 2 * world.size(), 5, [&](int64_t i, int64_t j) { return value(me, i, j); });
    const Tensor y = world.all_to_all(c, x);
    expect_filled(y, [&](int64_t i, int64_t j) { return value(i / 2, 2 * me + i % 2, j); });
    EXPECT_EQ(y.raw() == x.raw(), world.size() == 1);
  });
}

TEST_P(Verbs, AllGatherConcatenatesInRankOrder) {
  on_ranks(GetParam(), [](Ctx& c, Comm& world) {
    const int me = world.rank();
    const Tensor x = filled<int32_t>(c, 3, 4, [&](int64_t i, int64_t j) { return value(me, i, j); });
    const Tensor y = world.all_gather(c, x);
    expect_filled<int32_t>(y, [&](int64_t i, int64_t j) { return value(i / 3, i % 3, j); });
  });
}

TEST_P(Verbs, AllGatherTakesTheRanksOwnRowsOfItsResult) {
  on_ranks(GetParam(), [](Ctx& c, Comm& world) {
    const int me = world.rank();
    const Tensor slot = c.empty({3 * world.size(), 4}, DType::f32, c.exchange());
    const Tensor x = slot.rows(3 * me, 3 * me + 3);
    std::iota(x.data<float>(), x.data<float>() + 12, 100.0f * static_cast<float>(me));
    const Tensor y = world.all_gather(c, x, slot);
    EXPECT_EQ(y.raw(), slot.raw());
    expect_filled(y, [&](int64_t i, int64_t j) { return i / 3 * 100 + i % 3 * 4 + j; });
  });
}

TEST_P(Verbs, AllReduceAddsInRankOrder) {
  on_ranks(GetParam(), [](Ctx& c, Comm& world) {
    for (const int64_t n : {1, 5, 4096 * 3 + 7}) {  // fewer elements than ranks, and more than a block
      const auto term = [](int64_t rank, int64_t j) {
        return (static_cast<float>(j % 97) + 0.1f) * 3.7f / (static_cast<float>(rank) * 1.3f + 1);
      };
      const Tensor x = filled(c, 1, n, [&](int64_t, int64_t j) { return term(world.rank(), j); });
      const Tensor y = world.all_reduce(c, x);
      EXPECT_EQ(y.raw(), x.raw());
      expect_filled(y, [&](int64_t, int64_t j) {
        float sum = term(0, j);
        for (int r = 1; r < world.size(); ++r) sum += term(r, j);
        return sum;
      });
    }
  });
}

TEST_P(Verbs, ExchangeReachesBothNeighbours) {
  on_ranks(GetParam(), [](Ctx& c, Comm& world) {
    const int me = world.rank(), n = world.size(), before = (me + n - 1) % n, after = (me + 1) % n;
    const Tensor up = filled(c, 1, 6, [&](int64_t i, int64_t j) { return value(me, i, j); });
    const Tensor down = filled(c, 2, 3, [&](int64_t i, int64_t j) { return -value(me, i, j) - 1; });
    const Sides ring = world.exchange(c, {up, down}, Ends::joined);
    expect_filled(ring.prev, [&](int64_t i, int64_t j) { return -value(before, i, j) - 1; });
    expect_filled(ring.next, [&](int64_t i, int64_t j) { return value(after, i, j); });

    const Sides line = world.exchange(c, {up, down}, Ends::open);
    EXPECT_EQ(line.prev.defined(), me > 0);
    EXPECT_EQ(line.next.defined(), me + 1 < n);
    if (me > 0) expect_filled(line.prev, [&](int64_t i, int64_t j) { return -value(before, i, j) - 1; });
    if (me + 1 < n) expect_filled(line.next, [&](int64_t i, int64_t j) { return value(after, i, j); });

    const Sides one_way = world.exchange(c, {{}, down}, Ends::joined);
    expect_filled(one_way.prev, [&](int64_t i, int64_t j) { return -value(before, i, j) - 1; });
    EXPECT_FALSE(one_way.next.defined());
  });
}

TEST_P(Verbs, GatherAndBroadcastTakeAnyRoot) {
  on_ranks(GetParam(), [](Ctx& c, Comm& world) {
    for (int root = 0; root < world.size(); ++root) {
      const Tensor x = filled(c, 2, 3, [&](int64_t i, int64_t j) { return value(world.rank(), i, j); });
      const Tensor all = world.gather(c, x, root);
      EXPECT_EQ(all.defined(), world.rank() == root);
      if (all.defined()) expect_filled(all, [&](int64_t i, int64_t j) { return value(i / 2, i % 2, j); });
      world.broadcast(c, x, root);
      expect_filled(x, [&](int64_t i, int64_t j) { return value(root, i, j); });
    }
  });
}

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

TEST_P(Verbs, EmptyTensorsTravelToo) {
  on_ranks(GetParam(), [](Ctx& c, Comm& world) {
    const Tensor x = c.empty({0, 8}, DType::f32);
    EXPECT_EQ(world.all_gather(c, x).shape(), Shape({0, 8}));
    EXPECT_EQ(world.all_to_all(c, x).size(), 0);
    world.all_reduce(c, x);
    const Sides got = world.exchange(c, {x, x}, Ends::joined);
    EXPECT_EQ(got.prev.size() + got.next.size(), 0);
  });
}

TEST_P(Verbs, SplitMakesIndependentGroups) {
  on_ranks(GetParam(), [](Ctx& c, Comm& world) {
    std::vector<int> even, odd;
    for (int r = 0; r < world.size(); ++r) (r % 2 ? odd : even).push_back(r);
    const auto half = world.split("half", world.rank() % 2 ? odd : even);
    EXPECT_EQ(half->rank(), world.rank() / 2);
    EXPECT_EQ(half->world_rank(), world.rank());
    EXPECT_EQ(half->axis(), "half");
    const Tensor x = filled(c, 1, 1, [&](int64_t, int64_t) { return world.rank(); });
    expect_filled(half->all_gather(c, x), [&](int64_t i, int64_t) { return 2 * i + world.rank() % 2; });
    const auto first = world.split("first", world.rank() == 0 ? std::vector<int>{0} : std::vector<int>());
    EXPECT_EQ(first != nullptr, world.rank() == 0);
    const auto again = half->split("again", std::vector<int>{half->rank()});
    EXPECT_EQ(again->members(), std::vector<int>{world.rank()});
  });
}

// Calls each verb once, on a context of any kind.
void one_of_each(Ctx& c, Comm& g) {
  const Tensor x = c.empty({2 * g.size(), 3}, DType::f32), y = c.empty({1, 10}, DType::f32);
  if (!c.dry()) std::fill_n(x.data<float>(), x.size(), 0.0f), std::fill_n(y.data<float>(), y.size(), 0.0f);
  g.all_to_all(c, x);
  g.all_gather(c, x);
  g.all_reduce(c, y);
  g.exchange(c, {x, y}, Ends::open);
  g.exchange(c, {x, y}, Ends::joined);
  g.gather(c, x, g.size() - 1);
  g.broadcast(c, x, 0);
  g.barrier(c);
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
