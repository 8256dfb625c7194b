#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "core/dry_rank.h"
#include "support/words.h"

namespace zoetrope {
namespace {

// The context only passes the back end on; these tests never look into it.
struct CtxTest : testing::Test {
  Pool pool{1};
  Rank rank;
  int not_a_backend = 0;

  Ctx live() {
    rank.pool = &pool;
    rank.backend = reinterpret_cast<Backend*>(&not_a_backend);
    return Ctx(rank);
  }
};

TEST_F(CtxTest, RunsInOrderAndCounts) {
  Ctx c = live();
  int ran = 0;
  c.run({"op", 10, 4}, [&] { ++ran; });
  c.run({"op", 10, 4}, [&] { ++ran; });
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(c.counts().at("op").calls, 2);
  EXPECT_EQ(c.counts().at("op").flops, 20);
}

TEST_F(CtxTest, DryContextCountsAndNeverRuns) {
  DryRank dry;
  Ctx& c = dry.c;
  const Tensor big = c.empty({int64_t{1} << 30, 100}, DType::bf16);  // 200 GiB that nobody has
  c.run({"op", 1, big.bytes()}, [] { FAIL(); });
  EXPECT_EQ(c.scratch().peak(), size_t{200} << 30);
  EXPECT_EQ(c.fetch<float>(c.empty({2}, DType::f32), 3.0f), (std::vector<float>{3.0f, 3.0f}));
}

TEST_F(CtxTest, ForkRunsInAnotherThreadAndJoins) {
  Ctx c = live();
  std::thread::id side;
  int value = 0;
  {
    Fork fork(c);
    fork.ctx().run({"side"}, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      side = std::this_thread::get_id(), value = 1;
    });
  }
  EXPECT_EQ(value, 1);
  EXPECT_NE(side, std::this_thread::get_id());
}

TEST_F(CtxTest, ForkAndParentWaitForEachOther) {
  Ctx c = live();
  int value = 0;
  Fork fork(c);
  fork.ctx().run({"side"}, [&] { value = 1; });
  fork.before_parent();
  c.run({"main"}, [&] {
    EXPECT_EQ(value, 1);
    value = 2;
  });
  fork.after_parent();
  fork.ctx().run({"side"}, [&] {
    EXPECT_EQ(value, 2);
    value = 3;
  });
  fork.before_parent();
  EXPECT_EQ(value, 3);
}

TEST_F(CtxTest, AnErrorOnTheSideComesOutOfTheJoin) {
  Ctx c = live();
  EXPECT_EQ(words([&] {
              Fork fork(c);
              fork.ctx().run({"side"}, [] { fail(Code::comm, "rank 3 is gone"); });
            }),
            "rank 3 is gone");
  int ran = 0;
  {
    Fork fork(c);  // and the next fork works
    fork.ctx().run({"side"}, [&] { ran = 1; });
  }
  EXPECT_EQ(ran, 1);
}

// As the stream of a device that has failed: what is asked of it next fails, too.
struct BrokenStream final : Stream {
  bool broken = false;
  bool immediate() const override { return true; }
  void submit(Job job) override { job(); }
  Event record() override {
    if (broken) fail(Code::device, "launch failure");
    return {this, 0};
  }
  void wait(const Event&) override {}
  void sync() override {}
  void block_until(uint64_t) override {}
};

TEST_F(CtxTest, AJoinOfAFailedDeviceLeavesTheErrorThatIsOnItsWay) {
  Ctx c = live();
  auto side = std::make_unique<BrokenStream>();
  bool& broken = side->broken;
  rank.side = std::move(side);
  EXPECT_EQ(words([&] {
              Fork fork(c);
              broken = true;
              fail(Code::device, "illegal address");
            }),
            "illegal address");
  broken = false;
  EXPECT_EQ(words([&] {
              Fork fork(c);
              broken = true;
            }),
            "launch failure");
  broken = false;
  Fork fork(c);  // and the next fork works
}

TEST_F(CtxTest, IssuesNoOpOnceAStopWasAskedFor) {
  Ctx c = live();
  std::stop_source source;
  int ran = 0;
  {
    const StopScope job(rank, source.get_token());
    c.run({"op"}, [&] { ++ran, source.request_stop(); });
    EXPECT_EQ(words([&] { c.run({"op"}, [&] { ++ran; }); }), "cancelled");
    EXPECT_EQ(words([&] {
                Fork fork(c);
                fork.ctx().run({"side"}, [&] { ++ran; });
              }),
              "cancelled");
    EXPECT_EQ(words([&] { c.check_stop(); }), "cancelled");
    EXPECT_EQ(words([&] { c.pool().for_each(1, 1, [&](int64_t, int64_t) { ++ran; }); }), "cancelled");
  }
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(c.counts().at("op").calls, 1);  // what did not run does not count
  c.run({"op"}, [&] { ++ran; });            // the next job's
  EXPECT_EQ(ran, 2);
}

TEST_F(CtxTest, RefusesASecondOpenFork) {
  Ctx c = live();
  Fork fork(c);
  EXPECT_EQ(words([&] { Fork second(c); }), "fork: a side stream is already open; join it first");
}

}  // namespace
}  // namespace zoetrope
