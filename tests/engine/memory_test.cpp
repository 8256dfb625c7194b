// What a dry run predicts is what a job takes, and running out of it is a failure like any other.
#include "engine/memory.h"

#include <gtest/gtest.h>

#include "engine/dry_runs.h"
#include "engine/jobs.h"
#include "models/source.h"
#include "ops/cpu/backend.h"
#include "pipeline/facts.h"

namespace zoetrope {
namespace {

MemoryNeed predicted(const std::string& kind, const Ask& ask, DType type) {
  const ModelSource source = open_model_folder(toy_folder(kind));
  const Request request = resolve(ask, model_info(source), 0);
  return dry_run(source, request, cpu_traits(), type, type).memory;
}

MemoryNeed measured(const std::string& kind, const Ask& ask, DType type) {
  EngineConfig config = toy_config(kind);
  config.dtype = config.vae_dtype = type;
  Engine engine(config);
  const Json peak = run(engine, ask).at("peak_memory_bytes").at(0);
  return {peak.at("weights").get<std::map<std::string, int64_t>>(), peak.at("request"), peak.at("scratch"),
          peak.at("exchange")};
}

class Promise : public testing::TestWithParam<std::tuple<std::string, DType>> {};

TEST_P(Promise, IsKeptToTheByteForTheLongestPrompt) {
  const auto& [kind, type] = GetParam();
  Ask ask = small_ask();
  for (int i = 0; i < 600; ++i) ask.prompt += " cat";  // cut at 512 tokens
  ask.negative_prompt = ask.prompt;
  const MemoryNeed want = predicted(kind, ask, type), got = measured(kind, ask, type);
  EXPECT_EQ(got.weights, want.weights);
  EXPECT_EQ(got.request, want.request);
  EXPECT_EQ(got.scratch, want.scratch);
  EXPECT_EQ(got.exchange, want.exchange);
}

TEST_P(Promise, BoundsWhatAShortPromptTakes) {
  const auto& [kind, type] = GetParam();
  for (const double guidance : {1.0, 4.0}) {
    Ask ask = small_ask();
    ask.guidance_scale = guidance;
    const MemoryNeed want = predicted(kind, ask, type), got = measured(kind, ask, type);
    EXPECT_EQ(got.weights, want.weights);
    EXPECT_LE(got.request, want.request);
    EXPECT_LE(got.scratch, want.scratch);
    EXPECT_GT(got.scratch, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Toys, Promise,
                         testing::Combine(testing::Values("wan", "wan-a14b"), testing::Values(DType::f32, DType::bf16)),
                         [](const auto& info) {
                           const bool one = std::get<0>(info.param) == "wan";
                           return cat(one ? "one_expert_" : "two_experts_", name(std::get<1>(info.param)));
                         });

Ask larger_ask() {
  Ask ask = small_ask();
  ask.width = ask.height = 128, ask.num_frames = 9;
  return ask;
}

// Public report: out of memory in the decoder left the client waiting and spoiled the next request.
TEST(OutOfMemory, InTheDecoderSaysSoAndLeavesNoTrace) {
  EngineConfig config = toy_config();
  const auto limit = static_cast<size_t>(predicted("wan", larger_ask(), DType::f32).request - 1);
  ASSERT_GT(limit, static_cast<size_t>(predicted("wan", small_ask(), DType::f32).request));
  config.region_limit = limit;
  Engine engine(config);
  for (int i = 0; i < 2; ++i) {
    const auto job = engine.submit(larger_ask(), std::make_unique<Kept>());
    const std::string said = words([&] { job->wait(); });
    EXPECT_TRUE(said.starts_with("vae_decode: memory: request needs ")) << said;
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
  EXPECT_EQ(
      words([] {
        check_memory({{{"vae", int64_t{3} << 30}}, int64_t{1} << 30, int64_t{2} << 30, 0}, int64_t{5} << 30);
      }),
      "memory: this request needs 6.00 GiB (vae 3.00 GiB, request 1.00 GiB, scratch 2.00 GiB), 5.00 GiB are free; a "
      "smaller size, fewer frames or --dtype bf16 needs less");
  EXPECT_EQ(words([] { check_memory({{}, 1, 1, 0}, 2); }), "no error");
  Engine engine(toy_config());
  Ask ask = small_ask();
  ask.width = ask.height = 16384, ask.num_frames = 4093;
  const auto job = engine.submit(ask, std::make_unique<Kept>());
  EXPECT_NE(words([&] { job->wait(); }).find("memory: "), std::string::npos);
  EXPECT_EQ(frames_hash(engine, small_ask()), fresh_hash(toy_config(), small_ask()));
}

// ---- dry runs are kept ------------------------------------------------------------------------------------------

TEST(DryRuns, OfAShapeThatWasJustRunAreKept) {
  const ModelSource source = open_model_folder(toy_folder("wan-a14b"));
  const ModelInfo info = model_info(source);
  DryRuns runs(source, cpu_traits(), DType::f32, DType::f32);
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
  DryRuns runs(source, cpu_traits(), DType::f32, DType::f32);
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
  DryRuns runs(source, cpu_traits(), DType::f32, DType::f32);
  runs.of(request);
  const Cost& kept = runs.of(request);
  const Cost fresh = dry_run(source, request, cpu_traits(), DType::f32, DType::f32);
  EXPECT_EQ(kept.memory.total(), fresh.memory.total());
  EXPECT_EQ(kept.forward_flops, fresh.forward_flops);
  EXPECT_EQ(kept.total_flops, fresh.total_flops);
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
