// Engines that are one rank each and meet over sockets, as processes do; here they are threads, so that a rank can be
// hurt at a named place. tests/cli/ranks_test.cpp has real processes.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "comm/processes.h"
#include "config/fields.h"
#include "engine/engine.h"
#include "engine/jobs.h"

namespace zoetrope {
namespace {

using std::chrono::milliseconds;

// What became of the ranks: rank 0's frames, or the words of each that failed.
struct Outcome {
  std::string frames;
  std::vector<std::string> said;
  std::string next;  // what rank 0 says to a second job
};

Outcome apart(const EngineConfig& config, const Waits& waits = {}) {
  const int n = config.layout->shape.world();
  const uint16_t port = free_port();
  Outcome outcome{{}, std::vector<std::string>(static_cast<size_t>(n)), {}};
  const auto work = [&](int rank) {
    SocketWorld world(local_launch(rank, n, port), waits);
    Engine engine(config, &world);
    if (rank > 0) return engine.follow(to_json(small_ask()), {});
    try {
      outcome.frames = frames_hash(run(engine, small_ask()));
    } catch (...) {
      outcome.next = words([&] { run(engine, small_ask()); });
      throw;
    }
  };
  std::vector<std::thread> ranks;
  for (int r = 0; r < n; ++r)
    ranks.emplace_back([&, r] { outcome.said[static_cast<size_t>(r)] = words([&] { work(r); }); });
  for (auto& rank : ranks) rank.join();
  return outcome;
}

EngineConfig laid_out(const MeshShape& shape) {
  EngineConfig config = toy_config();
  config.layout = {shape, {}};
  config.threads = 1;
  return config;
}

// Hurts rank 1, once, where it comes to a named intermediate.
EngineConfig hurt(EngineConfig config, const std::string& at, std::function<void(Ctx&)> fault) {
  const auto armed = std::make_shared<std::atomic<bool>>(true);
  config.prepare = [=](Rank& rank, int number) {
    if (number == 1)
      rank.tap = [=](Ctx& c, std::string_view name, const Tensor&) {
        if (name == at && armed->exchange(false)) fault(c);
      };
  };
  return config;
}

constexpr const char* lost = "ranks: they were lost with an earlier job; start the program again";

TEST(RanksApart, GiveTheFramesOfOneRank) {
  const std::string one = fresh_hash(toy_config(), small_ask());
  for (const MeshShape& shape : {MeshShape{.cfg = 2}, MeshShape{.cfg = 2, .ulysses = 2}, MeshShape{.ulysses = 3}}) {
    const Outcome outcome = apart(laid_out(shape));
    EXPECT_EQ(outcome.frames, one) << text_of(shape);
    for (const std::string& said : outcome.said) EXPECT_EQ(said, "no error");
  }
}

TEST(RanksApart, AllHearWhyOneFailed) {
  for (const char* at : {"block.1", "latents.0"}) {
    const Outcome outcome =
        apart(hurt(laid_out({.ulysses = 3, .vae = 1}), at, [](Ctx&) { fail(Code::out_of_memory, "no room"); }));
    for (const std::string& said : outcome.said) EXPECT_TRUE(said.starts_with("rank 1: denoise: no room")) << said;
    EXPECT_EQ(outcome.next, lost);
  }
}

TEST(RanksApart, AStallEndsInItsTimeAndNamesWhoIsMissing) {
  const EngineConfig config = hurt(laid_out({.cfg = 2, .vae = 1}), "block.0.attn1", [](Ctx& c) {
    while (!c.rank().stop.stop_requested()) std::this_thread::sleep_for(milliseconds(5));
  });
  Waits waits;
  waits.set(Wait::step, milliseconds(400));
  const Stopwatch watch;
  const Outcome outcome = apart(config, waits);
  for (const std::string& said : outcome.said) {
    EXPECT_TRUE(said.starts_with("axis cfg: all_gather ")) << said;
    EXPECT_TRUE(said.ends_with("rank 1 is not there after 0.4 s (waits of class step)")) << said;
  }
  EXPECT_LT(watch.seconds(), 60);  // the limit of an unknown step is 120 s
  EXPECT_EQ(outcome.next, lost);
}

}  // namespace
}  // namespace zoetrope
