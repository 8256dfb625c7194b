// What a job leaves behind that met something not finite, or a fault of a kernel.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "cli/edge.h"
#include "cli/program.h"
#include "cuda/fault.h"
#include "engine/jobs.h"
#include "support/run_program.h"

namespace zoetrope {
namespace {

using std::chrono::steady_clock;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

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

TEST(Fault, OfMoreRanksThanGpusIsNamed) {
  EngineConfig config = toy_config();
  config.ranks = 2;
  const std::string said = words([&] { Engine engine(config); });
  EXPECT_NE(said.find("device cuda: 2 ranks, but only one GPU can be used so far"), std::string::npos) << said;
}

// Breaks the GPU and says when, by the clock that all processes of a machine share.
void break_now(Ctx& c) {
  std::ofstream(variable("FAULT_WHEN")) << steady_clock::now().time_since_epoch().count();
  break_gpu(c.stream().native());
}

// Graphs as they are, on a GPU that fails before one of them is replayed.
class FailingReplay final : public Segments {
 public:
  explicit FailingReplay(std::unique_ptr<Segments> graphs) : graphs_(std::move(graphs)) {}
  void run(Ctx& c, std::string_view key, const std::function<void()>& body) override {
    const bool fails = ++runs_[std::string(key)] == 3 && !failed_;  // the first ran, the second was recorded
    if (fails) failed_ = true, break_now(c);
    graphs_->run(c, key, [&] {
      if (fails) std::ofstream(variable("FAULT_WHEN")) << "not replayed";
      body();
    });
  }
  void clear() override { runs_.clear(), graphs_->clear(); }

 private:
  std::unique_ptr<Segments> graphs_;
  std::map<std::string, int> runs_;
  bool failed_ = false;
};

void fail_at(Rank& rank, const std::string& place) {
  if (place == "replay")
    rank.segments = std::make_unique<FailingReplay>(std::move(rank.segments));
  else
    rank.tap = [place](Ctx& c, std::string_view name, const Tensor&) {  // with a tap nothing is recorded
      if (name == place) break_now(c);
    };
}

// The program, with a GPU that fails in the middle of a step, before a graph or behind a decoded frame. In a process of
// its own, which ends as the program does.
TEST(Child, DISABLED_MeetsAFaultOfAKernel) {
  std::vector<std::string> said{"zoetrope", "generate",
                                "--device", "cuda",
                                "--model",  variable("FAULT_MODEL"),
                                "--out",    variable("FAULT_OUT"),
                                "--prompt", "a cat",
                                "--size",   "64x48",
                                "--steps",  "4",
                                "--seed",   "7",
                                "--quiet",  "--num-frames",
                                "5"};
  std::vector<char*> words;
  for (std::string& word : said) words.push_back(word.data());
  const int count = static_cast<int>(words.size());
  cli::World world = cli::World::from_environment(count, words.data());
  world.prepare = [](EngineConfig& config) {
    config.prepare = [](Rank& rank, int) { fail_at(rank, variable("FAULT_AT")); };
  };
  std::exit(cli::guarded([&] { return cli::run_program(world, count, words.data()); }));
}

// Seconds since the child broke the GPU, endless if it did not.
double seconds_since(const std::filesystem::path& when) {
  steady_clock::rep ticks = 0;
  if (!(std::ifstream(when) >> ticks)) return INFINITY;
  return std::chrono::duration<double>(steady_clock::now().time_since_epoch() - steady_clock::duration(ticks)).count();
}

struct FaultOfAKernel : testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fault, FaultOfAKernel, testing::Values("block.1", "replay", "video.0"), [](const auto& info) {
  std::string name = info.param;
  std::ranges::replace(name, '.', '_');
  return name;
});

TEST_P(FaultOfAKernel, EndsTheProgramWithin10SecondsWithOneLineAndNoFile) {
  const std::string want = fresh_hash(toy_config(), small_ask());
  const TempFolder folder, notes;
  const Ran child = run_program("/proc/self/exe", {"--gtest_filter=Child.*", "--gtest_also_run_disabled_tests"},
                                {.input = {},
                                 .environment = {{"FAULT_MODEL", toy_folder().string()},
                                                 {"FAULT_OUT", (folder / "x.safetensors").string()},
                                                 {"FAULT_WHEN", (notes / "when").string()},
                                                 {"FAULT_AT", GetParam()}},
                                 .folder = {}});
  EXPECT_LE(seconds_since(notes / "when"), 10);
  EXPECT_EQ(child.status, 4) << child.err;
  EXPECT_TRUE(child.err.starts_with("zoetrope: cuda: ")) << child.err;
  EXPECT_EQ(std::ranges::count(child.err, '\n'), 1) << child.err;
  EXPECT_EQ(folder.count(), 0u);
  EXPECT_EQ(fresh_hash(toy_config(), small_ask()), want);
}

}  // namespace
}  // namespace zoetrope
