// Between jobs of shapes that were made ready nothing is allocated, mapped or recorded, with the graphs and the pages
// of a GPU; tests/engine/kept_pages_test.cpp has what a CPU can tell. Prints what steps took.
#include <cstdio>

#include "cuda/counted_calls.h"
#include "engine/jobs.h"
#include "ops/cuda/segments.h"
#include "support/counted_pages.h"

namespace zoetrope {
namespace {

Ask ask_for(int width, int height, const std::string& prompt, int steps) {
  Ask ask = small_ask();
  ask.width = width, ask.height = height, ask.num_frames = 17, ask.prompt = prompt, ask.steps = steps;
  return ask;
}

// What a job took from the device.
struct Taken {
  CudaCalls calls;
  int commits, releases;
  int64_t replays;
};

class KeptOnAGpu : public testing::TestWithParam<const char*> {
 protected:
  EngineConfig config() {
    EngineConfig config = toy_config(GetParam());
    config.dtype = config.vae_dtype = DType::bf16;
    return config;
  }
  EngineConfig watched(std::vector<Resolution> sizes) {
    EngineConfig watched = config();
    watched.resolutions = std::move(sizes);
    if (!watched.resolutions.empty()) watched.num_frames = {17};
    watched.prepare = [this](Rank& rank, int) {
      count_pages(rank, pages_);
      rank_ = &rank;
    };
    return watched;
  }
  int64_t replays() const { return dynamic_cast<cuda::GraphSegments&>(*rank_->segments).replays(); }

  // Of an engine that has done nothing else.
  std::string fresh(const Ask& ask) {
    std::string& hash = fresh_[cat(*ask.width, ask.prompt, ' ', *ask.steps)];
    if (hash.empty()) hash = fresh_hash(config(), ask);
    return hash;
  }
  Taken job(Engine& engine, const Ask& ask, const char* what) {
    const Counted pages = pages_;
    const CudaCalls before = cuda_calls();
    const int64_t replayed = replays();
    const Json report = run(engine, ask);
    const CudaCalls after = cuda_calls();
    std::printf("steps| %s | %s | ms:", GetParam(), what);
    for (const Json& step : report.at("timings_s").at("steps")) std::printf(" %.2f", 1e3 * step.get<double>());
    std::printf(" | decode %.1f\n", 1e3 * report.at("timings_s").at("vae_decode").get<double>());
    EXPECT_EQ(frames_hash(report), fresh(ask)) << what;
    return {{after.memory - before.memory, 0, after.graphs - before.graphs},
            pages_.commits - pages.commits,
            pages_.releases - pages.releases,
            replays() - replayed};
  }
  // All segments of all steps are replayed, and nothing is taken for anything else.
  void expect_ready(Engine& engine, const Ask& ask, const char* what) {
    const Taken took = job(engine, ask, what);
    EXPECT_EQ(took.calls, CudaCalls()) << what << ": memory, or graphs";
    EXPECT_EQ(took.commits, 0) << what;
    EXPECT_EQ(took.releases, 0) << what;
    EXPECT_GE(took.replays, 3 * 2 * *ask.steps) << what << ": head, blocks, tail of two branches";
  }

  Counted pages_;
  std::map<std::string, std::string> fresh_;
  Rank* rank_ = nullptr;
};

TEST_P(KeptOnAGpu, NothingIsTakenByJobsOfShapesThatWereMadeReady) {
  Engine engine(watched({{480, 640}, {256, 256}}));
  engine.warm_up();
  const std::string longer = "a dog that chases two cats over the hills of a distant land";
  expect_ready(engine, ask_for(640, 480, "a cat", 4), "first job, 640x480");
  expect_ready(engine, ask_for(256, 256, longer, 6), "first job, 256x256");
  expect_ready(engine, ask_for(640, 480, longer, 5), "second job, 640x480");
}

TEST_P(KeptOnAGpu, NothingIsTakenByTheNextJobOfAShape) {
  Engine engine(watched({}));
  const Taken first = job(engine, ask_for(640, 480, "a dog", 8), "cold, 640x480");
  EXPECT_GT(first.calls.memory, 0);
  EXPECT_GT(first.calls.graphs, 0);
  EXPECT_GT(first.commits, 0);
  expect_ready(engine, ask_for(640, 480, "a cat", 7), "next, 640x480");
}

// Neither what is not finite nor a job that was cancelled is left in what a recording works in.
TEST_P(KeptOnAGpu, RecordingsAreGoodAfterAJobThatWasLeft) {
  Engine engine(watched({{480, 640}}));
  engine.warm_up();
  const Ask ask = ask_for(640, 480, "a cat", 4);
  for (const Stage stage : {Stage::denoise, Stage::vae_decode}) {
    std::shared_ptr<Job> job;
    std::promise<void> there;
    const auto ready = there.get_future().share();
    job = engine.submit(ask_for(640, 480, "a dog", 4), std::make_unique<Kept>(), [&, ready](const Progress& now) {
      ready.wait();
      if (now.stage == stage) job->cancel();
    });
    there.set_value();
    EXPECT_EQ(words([&] { job->wait(); }), "cancelled") << name(stage);
    expect_ready(engine, ask, "after a cancel");
  }
  rank_->tap = [](Ctx& c, std::string_view tapped, const Tensor& value) {
    const uint32_t nan = 0x7FC0'7FC0;
    if (tapped == "block.0") c.upload(&nan, {value.raw(), {1}, DType::f32});
  };
  EXPECT_TRUE(words([&] { run(engine, ask); }).starts_with("denoise: step 1 of 4"));
  rank_->tap = {};
  expect_ready(engine, ask, "after a NaN");
}

INSTANTIATE_TEST_SUITE_P(Toys, KeptOnAGpu, testing::Values("wan", "wan-a14b"),
                         [](const auto& info) { return std::string(info.param) == "wan" ? "one_expert" : "two"; });

}  // namespace
}  // namespace zoetrope
