// What a dry run predicts is what a job takes, and running out of it is a failure like any other.
#include "engine/memory.h"

#include <gtest/gtest.h>

#include "engine/jobs.h"
#include "models/source.h"
#include "ops/cpu/backend.h"
#include "pipeline/facts.h"

namespace zoetrope {
namespace {

MemoryNeed predicted(const std::string& kind, const Ask& ask, DType type) {
  const ModelSource source = open_model_folder(toy_folder(kind));
  const Request request = resolve(ask, model_info(source), 0);
  return dry_run(source, request, scheduler_config(source, request), cpu_traits(), type, type).memory;
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
  EXPECT_EQ(words([] {
              check_memory({{{"vae", int64_t{3} << 30}}, int64_t{1} << 30, int64_t{2} << 30, 0}, int64_t{5} << 30);
            }),
            "memory: this request needs 6.0 GiB (vae 3.0 GiB, request 1.0 GiB, scratch 2.0 GiB), 5.0 GiB are free; a "
            "smaller size, fewer frames or --dtype bf16 needs less");
  EXPECT_EQ(words([] { check_memory({{}, 1, 1, 0}, 2); }), "no error");
  Engine engine(toy_config());
  Ask ask = small_ask();
  ask.width = ask.height = 16384, ask.num_frames = 4093;
  const auto job = engine.submit(ask, std::make_unique<Kept>());
  EXPECT_NE(words([&] { job->wait(); }).find("memory: "), std::string::npos);
  EXPECT_EQ(frames_hash(engine, small_ask()), fresh_hash(toy_config(), small_ask()));
}

}  // namespace
}  // namespace zoetrope
