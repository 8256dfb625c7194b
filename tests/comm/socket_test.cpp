// Ranks as processes: the verbs, and every way to lose one.
#include <random>
#include <thread>

#include "comm/processes.h"
#include "comm/verb_cases.h"
#include "support/words.h"

namespace zoetrope {
namespace {

using std::chrono::milliseconds;

struct Processes : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Processes, testing::Values(1, 2, 3, 4, 7));

TEST_P(Processes, RunEveryVerb) {
  const auto ended = on_processes(GetParam(), [](Ctx& c, Comm& world) {
    for (const auto run : verb_cases) run(c, world);
  });
  for (const Ended& process : ended) EXPECT_TRUE(process.fine()) << process.text;
}

TEST(Processes, MoveMoreThanASocketHolds) {
  for (const Ended& process : on_processes(3, [](Ctx&c, Comm&world) {
         const int64_t rows = 1 << 11;  // 8 MiB from each to each
         const Tensor x = filled(c, 3 * rows, 1024, [&](int64_t i, int64_t j) { return world.rank() + i % 7 + j % 5; });
         const Tensor y = world.all_to_all(c, x);
         expect_filled(y,
                       [&](int64_t i, int64_t j) { return i / rows + (world.rank() * rows + i % rows) % 7 + j % 5; });
       }))
    EXPECT_TRUE(process.fine()) << process.text;
}

TEST(Processes, UseForksAndSeveralAxesAtOnce) {
  for (const Ended& process : on_processes(4, [](Ctx&c, Comm&world) {
         const auto pair = world.split("pair", world.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3});
         std::mt19937 engine(static_cast<unsigned>(world.rank()));
         const Tensor a = filled(c, 1, 100, [](int64_t, int64_t) { return 1; });
         const Tensor b = filled(c, 1, 100, [](int64_t, int64_t) { return 1; });
         {
           Fork fork(c);
           for (int i = 0; i < 10; ++i) {
             const std::chrono::microseconds time(engine() % 300);
             fork.ctx().run({"delay"}, [time] { std::this_thread::sleep_for(time); });
             world.all_reduce(fork, a);
             pair->all_reduce(c, b);
           }
         }
         expect_filled(a, [](int64_t, int64_t) { return 1 << 20; });
         expect_filled(b, [](int64_t, int64_t) { return 1 << 10; });
       }))
    EXPECT_TRUE(process.fine()) << process.text;
}

TEST(Processes, NoticeOneThatIsKilled) {
  for (const int victim : {0, 2}) {  // rank 0 serves the store
    const auto ended = on_processes(4, [&](Ctx& c, Comm& world) {
      const auto pair = world.split("pair", world.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3});
      world.barrier(c);
      if (world.rank() == victim) raise(SIGKILL);
      const Waiting idle(world.waits(), Wait::idle);
      pair->barrier(c);  // one waits for the dead, the others pass
      world.barrier(c);
    });
    for (int r = 0; r < 4; ++r) {
      const Ended& process = ended[static_cast<size_t>(r)];
      EXPECT_LT(process.seconds, 5);
      if (r == victim) continue;
      EXPECT_EQ(process.text, cat("rank ", victim, ": its process is gone, without a word"));
      EXPECT_FALSE(process.fine());
    }
  }
}

TEST(Processes, HearTheCauseOfAThrow) {
  const auto ended = on_processes(4, [&](Ctx& c, Comm& world) {
    world.barrier(c);
    if (world.rank() == 3) fail(Code::out_of_memory, "no room for frames");
    world.barrier(c);
  });
  for (const Ended& process : ended) {
    EXPECT_EQ(process.text, "rank 3: no room for frames");
    EXPECT_FALSE(process.fine());
    EXPECT_LT(process.seconds, 5);
  }
}

TEST(Processes, NameAStallAndADisagreement) {
  const auto stalled = on_processes(
      3,
      [](Ctx& c, Comm& world) {
        world.barrier(c);
        const Waiting step(world.waits(), Wait::step);
        if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(1500));
        world.all_gather(c, c.empty({2, 4}, DType::f32));
      },
      short_waits(milliseconds(500)));
  for (const Ended& process : stalled)
    EXPECT_EQ(process.text,
              "axis world: all_gather 2 of 64 bytes: rank 1 is not there after 0.5 s (waits of class step)");
  const auto disagreeing = on_processes(
      3, [](Ctx& c, Comm& world) { world.broadcast(c, c.empty({world.rank() == 2 ? 3 : 2}, DType::f32), 0); });
  for (const Ended& process : disagreeing)
    EXPECT_EQ(process.text,
              "rank 2 calls broadcast of [3] fp32 from rank 0 but rank 0 broadcast of [2] fp32 from rank 0 (axis "
              "world, call 1)");
}

TEST(Processes, NameOneThatLeftTooEarly) {
  const auto ended = on_processes(3, [](Ctx& c, Comm& world) {
    world.barrier(c);
    if (world.rank() != 2) world.barrier(c);
  });
  EXPECT_TRUE(ended[2].fine());
  for (const size_t r : {0, 1}) EXPECT_EQ(ended[r].text, "rank 2: it has left while others still wait for it");
}

TEST(Bootstrap, NamesARankThatDoesNotCome) {
  const uint16_t port = free_port();
  const auto ended = fork_ranks(2, [&](int r) -> std::string {
    SocketWorld world(local_launch(r, 3, port), short_waits(milliseconds(400)));
    return "fine";
  });
  EXPECT_EQ(ended[0].text, "control: rank 2 did not come within 0.4 s");
  for (const Ended& process : ended) EXPECT_FALSE(process.fine());
}

// It had met the others, and then found no weights, say.
TEST(Bootstrap, HearsWhyOneDoesNotGoOn) {
  const uint16_t port = free_port();
  const auto ended = fork_ranks(3, [&](int r) -> std::string {
    SocketWorld world(local_launch(r, 3, port));
    if (r == 1) world.abort({r, Code::invalid, "no weights"});
    if (r != 1) world.comm(r);  // would wait for 120 s
    return "fine";
  });
  for (const size_t r : {0, 2}) {
    EXPECT_EQ(ended[r].text, "rank 1: no weights");
    EXPECT_LT(ended[r].seconds, 60);
  }
}

TEST(Bootstrap, NoticesOneThatDiesWhileJoining) {
  const uint16_t port = free_port();
  const auto ended = fork_ranks(3, [&](int r) -> std::string {
    if (r == 2) {
      Store store(local_launch(r, 3, port), Deadline::in(std::chrono::seconds(5)));
      for (const char* other : {"control#0", "control#1"}) store.get(other, Deadline::in(std::chrono::seconds(5)));
      raise(SIGKILL);
    }
    SocketWorld world(local_launch(r, 3, port));  // would wait for 120 s
    return "fine";
  });
  for (const size_t r : {0, 1}) {
    // Or, where rank 0 went first because of it, "control: rank 0 is gone: ...".
    const bool named = ended[r].text.ends_with(": rank 2 died while the ranks were joining");
    EXPECT_TRUE(named || (r == 1 && ended[r].text.find("rank 0") != std::string::npos)) << ended[r].text;
    EXPECT_LT(ended[r].seconds, 5);
  }
}

}  // namespace
}  // namespace zoetrope
