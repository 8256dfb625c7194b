// What a job leaves behind that met something not finite, or a fault of a kernel.
#include <chrono>
#include <cstdio>
#include <limits>

#include "cuda/fault.h"
#include "engine/jobs.h"
#include "support/run_program.h"

namespace zoetrope {
namespace {

// The engine's rank, to give it a tap between jobs.
Rank*& tapped(EngineConfig& config) {
  static Rank* rank;
  config.prepare = [](Rank& own, int) { rank = &own; };
  return rank;
}

TEST(Fault, WhatIsNotFiniteIsNamedAndLeavesNoTrace) {
  EngineConfig config = toy_config("wan-a14b");
  const std::string want = fresh_hash(config, small_ask());
  Rank*& rank = tapped(config);
  Engine engine(config);
  for (const auto& [where, said] : {std::pair{"prompt embedding", "text_encode: the prompt embedding holds "},
                                    {"block.1", "denoise: step 1 of 2 (transformer) holds "},
                                    {"video.0", "vae_decode: latent frame 0 holds "}}) {
    rank->tap = [name = std::string_view(where)](Ctx& c, std::string_view tapped, const Tensor& value) {
      if (tapped != name) return;
      const uint32_t nan = 0x7FC0'7FC0;  // in fp32 and in bf16
      c.upload(&nan, {value.raw(), {1}, DType::f32});
    };
    EXPECT_EQ(words([&] { run(engine, small_ask()); }).substr(0, std::string(said).size()), said);
    rank->tap = {};
    EXPECT_EQ(frames_hash(engine, small_ask()), want) << "after " << where;
  }
}

// In a process of its own, see below.
TEST(Child, DISABLED_MeetsAFaultOfAKernel) {
  EngineConfig config = toy_config();
  Rank*& rank = tapped(config);
  Engine engine(config);
  rank->tap = [](Ctx& c, std::string_view name, const Tensor&) {
    if (name == "block.1") break_gpu(c.stream().native());
  };
  try {
    run(engine, small_ask());
  } catch (const Error& error) {
    std::fprintf(stderr, "error %d: %s\n", static_cast<int>(error.code()), error.what());
    throw;
  }
}

TEST(Fault, OfAKernelEndsTheProcessWithOneLine) {
  const std::string want = fresh_hash(toy_config(), small_ask());
  const auto from = std::chrono::steady_clock::now();
  const Ran child = run_program("/proc/self/exe", {"--gtest_filter=Child.*", "--gtest_also_run_disabled_tests"});
  EXPECT_LE(std::chrono::steady_clock::now() - from, std::chrono::seconds(30)) << "start, job and 10 s";
  EXPECT_EQ(child.status, 1) << child.err;
  EXPECT_TRUE(child.err.starts_with(cat("error ", static_cast<int>(Code::device), ": cuda: "))) << child.err;
  EXPECT_EQ(std::ranges::count(child.err, '\n'), 1) << child.err;
  EXPECT_EQ(fresh_hash(toy_config(), small_ask()), want);
}

}  // namespace
}  // namespace zoetrope
