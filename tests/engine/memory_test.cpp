// What a dry run predicts is what a job takes, and running out of it is a failure like any other.
#include "engine/memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>

#include "engine/dry_runs.h"
#include "engine/jobs.h"
#include "models/source.h"
#include "ops/cpu/backend.h"
#include "ops/cuda/backend.h"
#include "pipeline/facts.h"

namespace zoetrope {
namespace {

Cost cost_of(const std::string& kind, const Ask& ask, DType type, Residency residency = Residency::all) {
  const ModelSource source = open_model_folder(toy_folder(kind));
  const Request request = resolve(ask, model_info(source), 0);
  return dry_run({source, device::traits(), type, type}, request, {}, residency);
}

MemoryNeed predicted(const std::string& kind, const Ask& ask, DType type) { return cost_of(kind, ask, type).memory; }

bool on_gpu() { return device::traits().device == DeviceKind::cuda; }

// Pages of a GPU are large: what is to need more of them has to be large, too.
Ask page_ask() {
  Ask ask = small_ask();
  if (on_gpu()) ask.width = 640, ask.height = 480, ask.num_frames = 17;
  return ask;
}

// A machine that has just enough for a residency, and not for the one before.
EngineConfig config_of(const std::string& kind, const Ask& ask, DType type, Residency residency) {
  EngineConfig config = toy_config(kind);
  config.dtype = config.vae_dtype = type;
  const Cost cost = cost_of(kind, ask, type, residency);
  config.memory_limit = most_at_once(cost.stages) + cost.fixed;
  return config;
}

MemoryNeed peaks(const Json& report) {
  const Json peak = report.at("peak_memory_bytes").at(0);
  return {peak.at("weights").get<std::map<std::string, int64_t>>(), peak.at("request"), peak.at("scratch"),
          peak.at("exchange")};
}

using Case = std::tuple<std::string, DType, Residency>;
class Promise : public testing::TestWithParam<Case> {};

TEST_P(Promise, IsKeptToTheByteForTheLongestPrompt) {
  const auto& [kind, type, residency] = GetParam();
  Ask ask = page_ask();
  for (int i = 0; i < 600; ++i) ask.prompt += " cat";  // cut at 512 tokens
  ask.negative_prompt = ask.prompt;
  const Cost want = cost_of(kind, ask, type, residency);
  Engine engine(config_of(kind, ask, type, residency));
  for (int job = 0; job < 2; ++job) {
    const Json report = run(engine, ask);
    EXPECT_EQ(report.at("residency"), name(residency));
    const MemoryNeed got = peaks(report);
    EXPECT_EQ(got.weights, want.memory.weights);
    EXPECT_EQ(got.request, want.memory.request);
    EXPECT_EQ(got.scratch, want.memory.scratch);
    EXPECT_EQ(got.exchange, want.memory.exchange);
    const Json& memory = report.at("peak_memory_bytes").at(0);
    EXPECT_EQ(memory.at("total"), most_at_once(want.stages));
    EXPECT_EQ(memory.at("predicted"), most_at_once(want.stages));
    ASSERT_EQ(memory.at("device").is_null(), !on_gpu());
    if (on_gpu()) {
      const auto used = memory.at("device").get<int64_t>(), regions = memory.at("predicted").get<int64_t>();
      const int64_t before = memory.at("device_predicted").get<int64_t>() - regions - want.fixed;
      std::printf("memory| %s, %s, %s | job %d | MiB: %ld in use before, %ld regions, %ld of the device in all\n",
                  kind.c_str(), name(type), name(residency), job + 1, before >> 20, regions >> 20, used >> 20);
      EXPECT_LE(used, regions + (int64_t{3} << 29)) << "1.5 GiB for all else, if nobody else uses the device";
      EXPECT_GE(used, before + regions);
    }
    ask.prompt += "s", ask.negative_prompt = "dog" + ask.prompt;  // the text encoder is asked again
  }
}

TEST_P(Promise, BoundsWhatAShortPromptTakes) {
  const auto& [kind, type, residency] = GetParam();
  for (const double guidance : {1.0, 4.0}) {
    Ask ask = page_ask();
    ask.guidance_scale = guidance;
    const MemoryNeed want = cost_of(kind, ask, type, residency).memory;
    Engine engine(config_of(kind, ask, type, residency));
    const MemoryNeed got = peaks(run(engine, ask));
    EXPECT_EQ(got.weights, want.weights);
    EXPECT_LE(got.request, want.request);
    EXPECT_LE(got.scratch, want.scratch);
    EXPECT_GT(got.scratch, 0);
  }
}

// Public report: one expert at a time, and another video.
TEST_P(Promise, HasTheSameBitsInEachResidency) {
  const auto& [kind, type, residency] = GetParam();
  EngineConfig roomy = toy_config(kind);
  roomy.dtype = roomy.vae_dtype = type;
  Engine all(roomy), engine(config_of(kind, page_ask(), type, residency));
  for (const char* prompt : {"a cat", "a dog", "a dog"}) {
    Ask ask = page_ask();
    ask.prompt = prompt;
    const Json report = run(engine, ask);
    EXPECT_EQ(report.at("residency"), name(residency));
    EXPECT_EQ(frames_hash(report), frames_hash(all, ask)) << prompt;
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* kind : {"wan", "wan-a14b"})
    for (const DType type : {DType::f32, DType::bf16})
      for (const Residency residency : rungs(open_model_folder(toy_folder(kind))))
        all.emplace_back(kind, type, residency);
  return all;
}

std::string words_of_case(const testing::TestParamInfo<Case>& info) {
  const auto& [kind, type, residency] = info.param;
  return cat(kind == "wan" ? "one_expert_" : "two_experts_", name(type), '_', name(residency));
}

INSTANTIATE_TEST_SUITE_P(Toys, Promise, testing::ValuesIn(cases()), words_of_case);

Ask larger_ask() {
  Ask ask = small_ask();
  ask.width = on_gpu() ? 1024 : 128, ask.height = on_gpu() ? 768 : 128, ask.num_frames = 9;
  return ask;
}

// Public report: out of memory in the decoder left the client waiting and spoiled the next request.
TEST(OutOfMemory, InTheDecoderSaysSoAndLeavesNoTrace) {
  if (on_gpu()) GTEST_SKIP() << "OutOfMemoryIn has it in pages";
  EngineConfig config = toy_config();
  const auto limit = static_cast<size_t>(predicted("wan", larger_ask(), DType::f32).scratch - 1);
  ASSERT_GT(limit, static_cast<size_t>(predicted("wan", small_ask(), DType::f32).scratch));
  config.region_limit = limit;
  Engine engine(config);
  for (int i = 0; i < 2; ++i) {
    const auto job = engine.submit(larger_ask(), std::make_unique<Kept>());
    const std::string said = words([&] { job->wait(); });
    EXPECT_TRUE(said.starts_with("vae_decode: memory: scratch needs ")) << said;
    EXPECT_TRUE(said.ends_with("; a smaller size, fewer frames or --dtype bf16 needs less")) << said;
    EXPECT_EQ(job->state(), JobState::failed);
    EXPECT_EQ(frames_hash(engine, small_ask()), fresh_hash(toy_config(), small_ask()));
  }
}

TEST(OutOfMemory, WhileLoadingLeavesRoomForTheNextTry) {
  EngineConfig config = toy_config();
  config.region_limit = 1 << 20;  // less than the transformer
  Engine engine(config);
  for (int i = 0; i < 2; ++i) {
    const auto job = engine.submit(small_ask(), std::make_unique<Kept>());
    const std::string said = words([&] { job->wait(); });
    EXPECT_TRUE(said.starts_with("load: memory: weights of transformer needs ")) << said;
  }
}

TEST(OutOfMemory, IsForeseen) {
  Engine engine(toy_config());
  Ask ask = small_ask();
  ask.width = ask.height = 16384, ask.num_frames = 4093;
  const auto job = engine.submit(ask, std::make_unique<Kept>());
  EXPECT_NE(words([&] { job->wait(); }).find("memory: "), std::string::npos);
  EXPECT_EQ(frames_hash(engine, small_ask()), fresh_hash(toy_config(), small_ask()));
}

// The refusal says what would fit, and it does.
TEST(OutOfMemory, IsRefusedWithWhatWouldFit) {
  const DType type = DType::f32;
  Ask ask = larger_ask();
  ask.num_frames = on_gpu() ? 129 : 33;
  const Residency lowest = Residency::one_expert;
  EngineConfig config = config_of("wan-a14b", larger_ask(), type, lowest);
  Engine engine(config);
  const std::string said = words([&] { run(engine, ask); });
  EXPECT_TRUE(said.starts_with("memory: this request needs ")) << said;
  EXPECT_NE(said.find(", memory_config.limit_gib allows "), std::string::npos) << said;
  EXPECT_NE(said.find("one expert at a time); "), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with(" would fit")) << said;
  const auto number = [&](const std::string& option) {
    const size_t at = said.find(option);
    EXPECT_NE(at, std::string::npos) << option << ": " << said;
    return std::stoi(said.substr(at + option.size()));
  };
  ask.num_frames = number("--num-frames ");
  EXPECT_GE(*ask.num_frames, *larger_ask().num_frames);
  run(engine, ask);
  ask.num_frames = *ask.num_frames + 4;
  EXPECT_TRUE(words([&] { run(engine, ask); }).starts_with("memory: ")) << "one latent frame more";
}

// A rank whose pages come out of a budget, which a stage cuts to what is taken when it begins.
struct Budget {
  std::atomic<int64_t> taken = 0, most = INT64_MAX;
};

class BudgetPages final : public Pages {
 public:
  BudgetPages(std::unique_ptr<Pages> pages, Budget& budget) : pages_(std::move(pages)), budget_(budget) {}
  ~BudgetPages() override { budget_.taken -= held_; }
  std::byte* base() const override { return pages_->base(); }
  bool host() const override { return pages_->host(); }
  size_t reserved() const override { return pages_->reserved(); }
  size_t grain() const override { return host() ? 4096 : pages_->grain(); }  // the system's: toys are small
  void commit(size_t from, size_t to) override {
    const auto bytes = static_cast<int64_t>(to - from);
    if (budget_.taken + bytes > budget_.most) fail(Code::out_of_memory, "memory: the test has no ", bytes, " bytes");
    pages_->commit(from, to);
    budget_.taken += bytes, held_ += bytes;
  }
  void release(size_t from, size_t to) override {
    pages_->release(from, to);
    const auto bytes = static_cast<int64_t>(to - from);
    budget_.taken -= bytes, held_ -= bytes;
  }

 private:
  std::unique_ptr<Pages> pages_;
  Budget& budget_;
  int64_t held_ = 0;
};

struct Fault {
  Stage stage;  // where memory runs out
  Stage after;  // it is cut to what is taken when this
  int done;     // is reported
};
constexpr Fault faults[] = {{Stage::load, Stage::load, 0},
                            {Stage::load, Stage::load, 1},  // the first part is there
                            {Stage::text_encode, Stage::text_encode, 0},
                            {Stage::denoise, Stage::text_encode, 1},
                            {Stage::vae_decode, Stage::denoise, 2}};

class OutOfMemoryIn : public testing::TestWithParam<std::tuple<Fault, Residency>> {};

TEST_P(OutOfMemoryIn, AStageNamesItAndLeavesNoTrace) {
  const auto& [fault, residency] = GetParam();
  Budget budget;
  EngineConfig config = config_of("wan-a14b", larger_ask(), DType::f32, residency);
  config.prepare = [&](Rank& rank, int) {
    rank.make_pages = [&, make = rank.make_pages](size_t bytes) -> std::unique_ptr<Pages> {
      return std::make_unique<BudgetPages>(make(bytes), budget);
    };
  };
  Engine engine(config);
  const auto cut = [&, fault = fault](const Progress& now) {
    if (now.stage == fault.after && now.done == fault.done) budget.most = budget.taken.load();
  };
  for (int i = 0; i < 2; ++i) {
    const auto job = engine.submit(larger_ask(), std::make_unique<Kept>(), cut);
    const std::string said = words([&] { job->wait(); });
    EXPECT_TRUE(said.starts_with(cat(name(fault.stage), ": memory: the test has no "))) << said;
    EXPECT_EQ(job->state(), JobState::failed);
    budget.most = INT64_MAX;
    if (i == 0) continue;  // twice in a row, too
    const Json report = run(engine, larger_ask());
    EXPECT_EQ(frames_hash(report), fresh_hash(toy_config("wan-a14b"), larger_ask()));
    EXPECT_LE(report.at("peak_memory_bytes").at(0).at("total"), config.memory_limit);
  }
}

std::vector<std::tuple<Fault, Residency>> all_faults() {
  std::vector<std::tuple<Fault, Residency>> all;
  for (const Fault& fault : faults)
    for (const Residency residency : {Residency::all, Residency::text_encoder_leaves, Residency::one_expert})
      if (fault.stage != Stage::load || fault.done == 0 || residency != Residency::one_expert)  // which loads one part
        all.emplace_back(fault, residency);
  return all;
}

std::string words_of_fault(const testing::TestParamInfo<std::tuple<Fault, Residency>>& info) {
  const auto& [fault, residency] = info.param;
  return cat(name(fault.stage), fault.stage == Stage::load && fault.done > 0 ? "_of_the_second_part" : "", "_with_",
             name(residency));
}

INSTANTIATE_TEST_SUITE_P(Stages, OutOfMemoryIn, testing::ValuesIn(all_faults()), words_of_fault);

// ---- dry runs are kept ------------------------------------------------------------------------------------------

TEST(DryRuns, OfAShapeThatWasJustRunAreKept) {
  const ModelSource source = open_model_folder(toy_folder("wan-a14b"));
  const ModelInfo info = model_info(source);
  DryRuns runs({source, cpu_traits(), DType::f32, DType::f32});
  const auto made = [&](auto change) {
    Ask ask = small_ask();
    change(ask);
    runs.of(resolve(ask, info, 0));
    return runs.made();
  };
  EXPECT_EQ(made([](Ask&) {}), 1);
  const Cost* const first = &runs.of(resolve(small_ask(), info, 0));
  EXPECT_EQ(made([](Ask& ask) {
              ask.prompt = "a dog", ask.negative_prompt = "a cat", ask.seed = 8, ask.fps = 8;
              ask.guidance_scale = 9, ask.guidance_scale_2 = 2;
            }),
            1);
  EXPECT_EQ(&runs.of(resolve(small_ask(), info, 0)), first);
  EXPECT_EQ(made([](Ask& ask) { ask.width = 80; }), 2);
  EXPECT_EQ(made([](Ask& ask) { ask.height = 64; }), 3);
  EXPECT_EQ(made([](Ask& ask) { ask.num_frames = 9; }), 4);
  EXPECT_EQ(made([](Ask& ask) { ask.steps = 3; }), 5);
  EXPECT_EQ(made([](Ask& ask) { ask.guidance_scale = 1; }), 6);    // one pass a step
  EXPECT_EQ(made([](Ask& ask) { ask.boundary_ratio = 0.1; }), 7);  // other steps for each expert
  EXPECT_EQ(made([](Ask& ask) { ask.width = 80; }), 7);            // still there
  EXPECT_EQ(made([](Ask&) {}), 7);
}

TEST(DryRuns, OfTheShapesAskedForLongAgoAreForgotten) {
  const ModelSource source = open_model_folder(toy_folder());
  const ModelInfo info = model_info(source);
  DryRuns runs({source, cpu_traits(), DType::f32, DType::f32});
  const auto made = [&](int steps) {
    Ask ask = small_ask();
    ask.steps = steps;
    runs.of(resolve(ask, info, 0));
    return runs.made();
  };
  const int kept = static_cast<int>(DryRuns::kept);
  for (int steps = 1; steps <= kept + 1; ++steps) EXPECT_EQ(made(steps), steps);
  EXPECT_EQ(made(2), kept + 1);
  EXPECT_EQ(made(1), kept + 2);  // the first was forgotten
  EXPECT_EQ(made(2), kept + 2);  // the one used last was not
}

TEST(DryRuns, AreTheSameAsNewOnes) {
  const ModelSource source = open_model_folder(toy_folder());
  const Request request = resolve(small_ask(), model_info(source), 0);
  DryRuns runs({source, cpu_traits(), DType::f32, DType::f32});
  runs.of(request);
  const Cost& kept = runs.of(request);
  const Cost fresh = dry_run({source, cpu_traits(), DType::f32, DType::f32}, request);
  EXPECT_EQ(kept.memory.total(), fresh.memory.total());
  EXPECT_EQ(kept.forward_flops, fresh.forward_flops);
  EXPECT_EQ(kept.total_flops, fresh.total_flops);
}

// What the cards of docs/performance.md must hold: 1280x720, 81 frames, bf16, pages and what lies beside the regions.
TEST(DryRuns, OfTheReleasedModelFitItsCards) {
  Pool pool(1);
  const ModelSource source = open_random_model("wan2.2-t2v-a14b", 0, &pool);
  Ask ask;
  ask.prompt = "a cat", ask.width = 1280, ask.height = 720, ask.num_frames = 81, ask.steps = 2, ask.flow_shift = 3;
  const Request request = resolve(ask, model_info(source), 0);
  const auto gibibytes = [&](Residency residency) {
    const Cost cost = dry_run({source, cuda_traits(90), DType::bf16, DType::bf16}, request, {}, residency);
    return static_cast<double>(most_at_once(cost.stages) + cost.fixed) / (1 << 30);
  };
  EXPECT_LE(gibibytes(Residency::all), 78);
  EXPECT_LE(gibibytes(Residency::text_encoder_leaves), 68);
  EXPECT_LE(gibibytes(Residency::one_expert), 40);
  for (const Residency r : {Residency::all, Residency::text_encoder_leaves, Residency::one_expert})
    RecordProperty(name(r), std::to_string(gibibytes(r)));
}

TEST(DryRuns, OfAnEngineServeItsLaterJobs) {
  Engine engine(toy_config());
  const std::string first = frames_hash(engine, small_ask());
  EXPECT_EQ(engine.dry_runs().made(), 1);
  EXPECT_EQ(frames_hash(engine, small_ask()), first);
  EXPECT_EQ(engine.dry_runs().made(), 1);
  Ask ask = small_ask();
  ask.num_frames = 9;
  run(engine, ask);
  EXPECT_EQ(engine.dry_runs().made(), 2);
}

}  // namespace
}  // namespace zoetrope
