// Collectives on forks: a second thread a rank, delays injected, several communicators at once.
#include <random>
#include <thread>

#include "comm/ranks.h"
#include "support/words.h"

namespace zoetrope {
namespace {

// Up to 300 microseconds on c's stream.
void delay(Ctx& c, std::mt19937& engine) {
  const std::chrono::microseconds time(engine() % 4 ? engine() % 50 : engine() % 300);
  c.run({"delay"}, [time] { std::this_thread::sleep_for(time); });
}

// One forked round: chunks exchanged on the side while the main stream sums; returns a value that depends on all.
std::vector<float> round_trip(Ctx& c, Comm& world, Comm& row, std::mt19937& engine) {
  const Scope scope(c.scratch());
  const auto me = static_cast<float>(world.rank());
  Tensor x = c.empty({8 * world.size(), 16}, DType::f32), sums = c.empty({64}, DType::f32);
  for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = me + static_cast<float>(i) * 0.37f;
  for (int64_t i = 0; i < sums.size(); ++i) sums.data<float>()[i] = (me + 0.1f) * static_cast<float>(i);
  Tensor y, z;
  {
    Fork fork(c);
    Ctx& side = fork;
    delay(side, engine);
    y = world.all_to_all(side, x);
    delay(side, engine);
    z = world.exchange(side, {{}, y}, Ends::joined).prev;
    for (int i = 0; i < 3; ++i) {
      delay(c, engine);
      row.all_reduce(c, sums);
    }
    fork.before_parent();
    row.broadcast(c, z, 0);
  }
  std::vector<float> result(z.span<float>().begin(), z.span<float>().end());
  result.insert(result.end(), sums.span<float>().begin(), sums.span<float>().end());
  return result;
}

TEST(Forks, GiveTheSameBitsWhateverIsDelayed) {
  on_ranks(4, [](Ctx& c, Comm& world) {
    const auto row = world.split("row", world.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3});
    std::mt19937 engine(static_cast<unsigned>(world.rank()));
    const auto first = round_trip(c, world, *row, engine);
    int differ = 0;
    for (int repeat = 0; repeat < 200; ++repeat) differ += round_trip(c, world, *row, engine) != first;
    EXPECT_EQ(differ, 0);
  });
}

TEST(Forks, UseTwoCommunicatorsAtOnce) {
  on_ranks(3, [](Ctx& c, Comm& world) {
    const auto other = world.split("other", {0, 1, 2});
    std::mt19937 engine(static_cast<unsigned>(world.rank()) + 100);
    const Tensor a = filled(c, 1, 1, [&](int64_t, int64_t) { return 0; });
    const Tensor b = filled(c, 1, 1, [&](int64_t, int64_t) { return 0; });
    {
      Fork fork(c);
      for (int i = 0; i < 100; ++i) {  // the side is free to lag behind or run ahead
        fork.ctx().run({"one more"}, [a] { *a.data<float>() += 1; });
        other->all_reduce(fork, a);
        fork.ctx().run({"mean"}, [a] { *a.data<float>() /= 3; });
        if (i % 7 == world.rank()) delay(c, engine);
        c.run({"two more"}, [b] { *b.data<float>() += 2; });
        world.all_reduce(c, b);
        c.run({"mean"}, [b] { *b.data<float>() /= 3; });
      }
    }
    EXPECT_EQ(*a.data<float>(), 100);
    EXPECT_EQ(*b.data<float>(), 200);
  });
}

TEST(Forks, AThrowOnASideFreesEveryRank) {
  EXPECT_EQ(words([] {
              on_ranks(4, [](Ctx& c, Comm& world) {
                const Tensor x = c.empty({4, 4}, DType::f32);
                Fork fork(c);
                if (world.rank() == 2) fork.ctx().run({"fault"}, [] { fail(Code::device, "a kernel failed"); });
                world.all_to_all(fork, x);
                fork.before_parent();
                world.barrier(c);  // rank 2 too, although the others wait for what its side did not send
              });
            }),
            "rank 2: a kernel failed");
}

TEST(Forks, OneCommunicatorOnTwoStreamsIsCaught) {
  const std::string text = words([] {
    on_ranks(2, [](Ctx& c, Comm& world) {
      const Tensor x = c.empty({2, 4}, DType::f32);
      Fork fork(c);
      fork.ctx().run({"late"}, [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); });
      world.all_to_all(fork, x);
      world.barrier(c);  // overtakes
    });
  });
  EXPECT_NE(text.find("barrier 2 on axis world began while call 1 was not done: two streams share a "
                      "communicator without waiting for each other"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace zoetrope
