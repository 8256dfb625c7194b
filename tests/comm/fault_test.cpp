// What happens when ranks throw, stall or disagree.
#include <thread>

#include "comm/ranks.h"
#include "support/words.h"

namespace zoetrope {
namespace {

using std::chrono::milliseconds;

struct Faults : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Faults, testing::Values(2, 3, 4, 7, 8));

TEST_P(Faults, OneRanksThrowFreesTheOthersWithItsWords) {
  const int n = GetParam();
  std::atomic<int> freed = 0;
  const Stopwatch watch;
  const auto job = [&] {
    on_ranks(n, [&](Ctx& c, Comm& world) {
      const Tensor x = c.empty({4, 4}, DType::f32);
      const std::string text = words([&] {
        world.all_gather(c, x);
        if (world.rank() == n - 1) fail(Code::out_of_memory, "weights do not fit");
        world.all_gather(c, x);
      });
      if (world.rank() == n - 1) fail(Code::out_of_memory, text);
      freed += text == cat("rank ", n - 1, ": weights do not fit");
      EXPECT_EQ(words([&] { world.barrier(c); }), text);  // and later calls say it again
      fail(Code::comm, "a consequence");
    });
  };
  EXPECT_EQ(words(job), cat("rank ", n - 1, ": weights do not fit"));
  EXPECT_EQ(freed, n - 1);
  EXPECT_EQ(code_of(job), Code::out_of_memory);
  EXPECT_LT(watch.seconds(), 5);
}

TEST(Faults, ReachThoseWhoWaitOnAnotherAxis) {
  EXPECT_EQ(words([] {
              on_ranks(4, [](Ctx& c, Comm& world) {
                const auto pair = world.split("pair", world.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3});
                if (world.rank() == 0) throw std::runtime_error("disk gone");
                const Waiting idle(world.waits(), Wait::idle);
                if (world.rank() == 2) world.barrier(c);  // 3 waits for 2 on `pair`, 2 for 0 on `world`, for ever
                pair->barrier(c);
              });
            }),
            "rank 0: disk gone");
}

TEST(Faults, AStallNamesAxisVerbNumberBytesAndWho) {
  const Stopwatch watch;
  EXPECT_EQ(words([] {
              on_ranks(
                  4,
                  [](Ctx& c, Comm& world) {
                    const auto axis = world.split("ulysses", {0, 1, 2, 3});
                    const Tensor x = c.empty({4, 4}, DType::f32);
                    const Waiting step(world.waits(), Wait::step);
                    axis->all_to_all(c, x);
                    if (world.rank() == 1) {  // late for ever, as far as the others can tell
                      const Waiting idle(world.waits(), Wait::idle);
                      while (words([&] { world.barrier(c); }) == "no error") continue;
                    }
                    if (world.rank() != 1) axis->all_to_all(c, x);
                  },
                  short_waits(milliseconds(300)));
            }),
            "axis ulysses: all_to_all 2 of 48 bytes: rank 1 is not there after 0.3 s (waits of class step)");
  EXPECT_LT(watch.seconds(), 5);
}

TEST(Faults, AStallNamesAllWhoAreMissing) {
  EXPECT_EQ(words([] {
              on_ranks(
                  4,
                  [](Ctx& c, Comm& world) {
                    if (world.rank() % 2 == 0) return world.barrier(c);
                    std::this_thread::sleep_for(milliseconds(400));
                  },
                  short_waits(milliseconds(100)));
            }),
            "axis world: barrier 1 of 0 bytes: ranks 1, 3 are not there after 0.1 s (waits of class bootstrap)");
}

TEST(Faults, AnIdleWaitHasNoDeadline) {
  on_ranks(
      2,
      [](Ctx& c, Comm& world) {
        const Tensor request = filled(c, 1, 1, [&](int64_t, int64_t) { return world.rank(); });
        const Waiting idle(world.waits(), Wait::idle);
        if (world.rank() == 0) std::this_thread::sleep_for(milliseconds(300));
        world.broadcast(c, request, 0);
        EXPECT_EQ(*request.data<float>(), 0);
      },
      short_waits(milliseconds(50)));
}

TEST(Disagreement, OfVerbsIsNamedOnEveryRank) {
  std::atomic<int> named = 0;
  const char* expected =
      "rank 2 calls all_gather of [4, 8] fp32 but rank 0 all_to_all of [3, 8] bf16 (axis world, call 2)";
  EXPECT_EQ(words([&] {
              on_ranks(3, [&](Ctx& c, Comm& world) {
                world.barrier(c);
                const std::string text = words([&] {
                  if (world.rank() == 2)
                    world.all_gather(c, c.empty({4, 8}, DType::f32));
                  else
                    world.all_to_all(c, c.empty({3, 8}, DType::bf16));
                });
                named += text == expected;
                fail(Code::comm, text);
              });
            }),
            expected);
  EXPECT_EQ(named, 3);
}

// Two ranks, the second with another call; the words that both get.
std::string disagreeing(const std::function<void(Ctx&, Comm&)>& first, const std::function<void(Ctx&, Comm&)>& second) {
  return words([&] { on_ranks(2, [&](Ctx& c, Comm& world) { (world.rank() ? second : first)(c, world); }); });
}

TEST(Disagreement, OfShapesTypesRootsAndEndsIsNamed) {
  const auto gather = [](Shape shape, DType type) {
    return [=](Ctx& c, Comm& w) { w.all_gather(c, c.empty(shape, type)); };
  };
  EXPECT_EQ(disagreeing(gather({4, 8}, DType::f32), gather({4, 9}, DType::f32)),
            "rank 1 calls all_gather of [4, 9] fp32 but rank 0 all_gather of [4, 8] fp32 (axis world, call 1)");
  EXPECT_EQ(disagreeing(gather({4, 8}, DType::f32), gather({4, 8}, DType::bf16)),
            "rank 1 calls all_gather of [4, 8] bf16 but rank 0 all_gather of [4, 8] fp32 (axis world, call 1)");
  const auto broadcast = [](int root) {
    return [=](Ctx& c, Comm& w) { w.broadcast(c, c.empty({2}, DType::f32), root); };
  };
  EXPECT_EQ(disagreeing(broadcast(0), broadcast(1)),
            "rank 1 calls broadcast of [2] fp32 from rank 1 but rank 0 broadcast of [2] fp32 from rank 0 (axis world, "
            "call 1)");
  const auto exchange = [](bool prev, Ends ends) {
    return [=](Ctx& c, Comm& w) {
      const Tensor x = c.empty({2}, DType::f32);
      w.exchange(c, {prev ? x : Tensor(), x}, ends);
    };
  };
  EXPECT_EQ(disagreeing(exchange(true, Ends::open), exchange(false, Ends::joined)),
            "rank 1 calls exchange of nothing to the previous and [2] fp32 to the next rank, ends joined but rank 0 "
            "exchange of [2] fp32 to the previous and [2] fp32 to the next rank, ends open (axis world, call 1)");
}

TEST(Disagreement, OfSplitsIsNamed) {
  EXPECT_EQ(disagreeing(
                [](Ctx&, Comm& w) {
                  w.split("tp", {0, 1});
                },
                [](Ctx&, Comm& w) { w.split("tp", {1}); }),
            "axis world: split into tp: rank 0 and rank 1 name different groups");
  EXPECT_EQ(disagreeing(
                [](Ctx&, Comm& w) {
                  w.split("tp", {0, 1});
                },
                [](Ctx& c, Comm& w) { w.barrier(c); }),
            "rank 1 calls barrier as call 1 but rank 0 split as call 0 (axis world)");
}

TEST(Recover, LeavesTheNextJobAsIfNothingHadHappened) {
  constexpr int n = 4;
  LocalWorld world(n, short_waits());
  std::vector<Rank> ranks(n);
  std::atomic<int> failed = 0, good = 0;
  const auto serve = [&](int r) {
    prepare_rank(ranks[static_cast<size_t>(r)], r);
    const auto comm = world.comm(r);
    const auto pair = comm->split("pair", r < 2 ? std::vector{0, 1} : std::vector{2, 3});
    Ctx c(ranks[static_cast<size_t>(r)]);
    const auto job = [&](int culprit) {
      const Scope scope(c.scratch());
      const Tensor x = filled(c, 4, 4, [&](int64_t i, int64_t j) { return r * 100 + i * 4 + j; });
      const Tensor sums = filled(c, 1, 1, [&](int64_t, int64_t) { return r; });
      {
        Fork fork(c);
        const Tensor y = comm->all_to_all(fork, x);
        if (r == culprit) fail(Code::out_of_memory, "no room");
        pair->all_reduce(c, sums);
        fork.before_parent();
        expect_filled(y, [&](int64_t i, int64_t j) { return i * 100 + r * 4 + j; });
      }
      expect_filled(sums, [&](int64_t, int64_t) { return r < 2 ? 1 : 5; });
      comm->barrier(c);
      ++good;
    };
    for (int round = 0; round < 12; ++round) {
      const int culprit = round % 3 == 1 ? round % n : -1;
      try {
        job(culprit);
      } catch (const Error& error) {
        world.abort(current_cause(r));
        EXPECT_EQ(world.cause()->words(), cat("rank ", culprit, ": no room"));
        ++failed;
      }
      if (culprit >= 0) world.recover(r);
    }
  };
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) threads.emplace_back(serve, r);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failed, 4 * n);
  EXPECT_EQ(good, 8 * n);
}

TEST(Waits, FollowTheirClasses) {
  Waits waits;
  EXPECT_EQ(waits.limit(Wait::idle), Waits::none);
  EXPECT_EQ(waits.limit(Wait::bootstrap), std::chrono::seconds(120));
  EXPECT_EQ(waits.limit(Wait::load), std::chrono::minutes(30));
  waits.observe(Wait::step, milliseconds(100));
  EXPECT_EQ(waits.limit(Wait::step), std::chrono::seconds(10));
  for (int i = 0; i < 40; ++i) waits.observe(Wait::step, std::chrono::seconds(3));
  waits.observe(Wait::step, std::chrono::seconds(500));  // one slow step moves nothing
  EXPECT_EQ(waits.limit(Wait::step), std::chrono::seconds(60));
  waits.set(Wait::step, milliseconds(5));
  waits.observe(Wait::step, std::chrono::seconds(3));
  EXPECT_EQ(waits.limit(Wait::step), milliseconds(5));
  {
    const Waiting idle(waits, Wait::idle);
    EXPECT_EQ(waits.limit(), Waits::none);
  }
  EXPECT_EQ(waits.now(), Wait::bootstrap);
}

TEST(RunRanks, KeepsASingleRanksErrorAsItIs) {
  EXPECT_EQ(words([] { on_ranks(1, [](Ctx&, Comm&) { fail(Code::invalid, "no such prompt"); }); }), "no such prompt");
  EXPECT_EQ(words([] { on_ranks(0, [](Ctx&, Comm&) {}); }), "ranks: 0 asked for, at least 1 is needed");
}

}  // namespace
}  // namespace zoetrope
