#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "config/fields.h"
#include "models/golden.h"
#include "pipeline/toy_runs.h"
#include "support/words.h"

namespace zoetrope {
namespace {

// A toy, loaded, with small requests.
struct Toy {
  explicit Toy(const std::string& kind, DType dtype = DType::f32)
      : source(toy_source(kind)), pipeline(cpu, source, dtype, dtype, {}) {}

  Request request(const Ask& ask) const { return toy_request(source, ask); }
  Frames run(const Request& r, const Hooks& hooks = {}) {
    Frames frames;
    run_toy(cpu, pipeline, source, r, hooks, frames);
    return frames;
  }

  CpuCtx cpu;
  ModelSource source;
  TextToVideo pipeline;
};

// Weights that ask for a stop at one read, and count what is read from then on.
struct StopsAt : nn::Random {
  StopsAt(std::string key, std::stop_source stop) : Random(0), key_(std::move(key)), stop_(std::move(stop)) {}
  void read(const std::string& key, const Shape& shape, const nn::Slice& part, const Tensor& to) override {
    if (stop_.stop_requested()) ++after;
    if (key == key_) stop_.request_stop();
    Random::read(key, shape, part, to);
  }
  std::atomic<int> after = 0;  // readers of a device's intake are several

 private:
  std::string key_;
  std::stop_source stop_;
};

TEST(Pipeline, EndsALoadWithinAPart) {
  CpuCtx cpu;
  std::stop_source stop;
  ModelSource source = toy_source("wan");
  auto weights = std::make_unique<StopsAt>("blocks.0.ffn.net.2.weight", stop);
  const StopsAt& seen = *weights;
  source.parts.at("transformer").weights = std::move(weights);
  {
    const StopScope job(cpu.rank, stop.get_token());
    EXPECT_EQ(words([&] { TextToVideo(cpu, source, DType::f32, DType::f32, {}); }), "cancelled");
  }
  EXPECT_TRUE(stop.stop_requested());
  const int ahead = cpu.rank.make_intake ? cpu.pool.threads() : 0;  // a reader has begun a piece at most
  EXPECT_LE(seen.after, ahead);
  EXPECT_FALSE(cpu.rank.weights.contains("vae"));
}

double psnr(const std::vector<float>& a, const std::vector<float>& b) {  // of values in [0, 1]
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return -10 * std::log10(sum / static_cast<double>(b.size()));
}

// The request that a recording was made with. Its latents are torch's noise of that seed, so ours must be, too.
Ask asked(const Golden& golden) {
  Ask ask;
  ask.prompt = golden.fact("prompt");
  ask.recipe = "folder";
  ask.negative_prompt = golden.fact("negative_prompt");
  for (const char* field :
       {"width", "height", "num_frames", "steps", "guidance_scale", "guidance_scale_2", "flow_shift"})
    if (golden.fact(field) != "null") set(ask, request_field(field), golden.fact(field));
  ask.schedule = golden.fact("grid");
  ask.seed = std::stoull(golden.fact("latents_seed"));
  return ask;
}

class PipelineGolden : public testing::TestWithParam<std::string> {};

// diffusers' whole pipeline on the same weights and latents: 1e-4 on latents, 80 dB on frames.
TEST_P(PipelineGolden, FollowsDiffusersStepByStep) {
  const Golden golden("pipeline/" + GetParam());
  Toy toy(GetParam().substr(0, GetParam().find('_')));
  const Request r = toy.request(asked(golden));
  ASSERT_EQ(r.guided(), golden.has("negative_embeds"));

  const auto tokenizer = Tokenizer::open(toy_configs("tokenizer"));
  const PromptIds ids = encode_prompts(*tokenizer, r);
  const auto wanted = golden.values<int64_t>("prompt_ids");
  EXPECT_EQ(std::vector<int64_t>(ids.positive.begin(), ids.positive.end()), wanted);

  Taps taps(toy.cpu.rank);
  Frames frames;
  toy.pipeline.run(toy.cpu, r, scheduler_config(toy.source, r), ids, {}, frames);
  expect_fidelity(golden, "prompt embedding", golden.shape("prompt_embeds"),
                  relative_error(taps.values("prompt embedding"), golden.values("prompt_embeds")), 2e-5);
  const auto after = golden.values("after");  // the latents after each of the first four steps
  const size_t n = after.size() / 4;
  const Shape& shape = golden.shape("final");
  double worst = 0;
  for (size_t i = 0; i < 4; ++i) {
    const std::vector<float> want(after.begin() + i * n, after.begin() + (i + 1) * n);
    worst = std::max(worst, relative_error(taps.values(cat("latents.", i)), want));
  }
  expect_fidelity(golden, "latents, worst of steps 1 to 4", shape, worst, 1e-4);
  expect_fidelity(golden, "final latents", shape,
                  relative_error(taps.values(cat("latents.", r.steps - 1)), golden.values("final")), 1e-4);
  if (!golden.has("video")) return;
  std::vector<float> video;
  for (int t = 0; t < r.latent_frames(); ++t)
    for (const float v : taps.values(cat("video.", t))) video.push_back(std::clamp(v * 0.5f + 0.5f, 0.0f, 1.0f));
  const double likeness = psnr(video, golden.values("video"));
  print_fidelity(golden, "video, PSNR", golden.shape("video"), cat(std::lround(likeness), " dB"), "at least 80 dB");
  EXPECT_GE(likeness, 80);
}

INSTANTIATE_TEST_SUITE_P(Toys, PipelineGolden,
                         testing::Values("wan_4", "wan_4_unguided", "wan_8_negative_shift12", "wan-a14b_4",
                                         "wan-a14b_4_one_scale", "wan-a14b_4_first_scale_1", "wan-a14b_8",
                                         "wan-a14b_8_negative_shift12", "wan-a14b_8_native12"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(Pipeline, SendsEveryFrameOnceAndInOrder) {
  Toy toy("wan");
  Ask ask;
  const Frames frames = toy.run(toy.request(ask));
  EXPECT_EQ(frames.width, 64);
  EXPECT_EQ(frames.height, 48);
  EXPECT_EQ(frames.announced, 9);
  EXPECT_EQ(frames.got, 9);
  EXPECT_EQ(frames.bytes.size(), 9u * 64 * 48 * 3);
  EXPECT_TRUE(frames.finished);
}

TEST(Pipeline, DropsTheFramesOfThePolicyCeil) {
  Toy toy("wan");
  Ask ask;
  ask.num_frames = 7, ask.frames_policy = "ceil";
  EXPECT_EQ(toy.run(toy.request(ask)).got, 7);
}

TEST(Pipeline, GivesTheSameBytesTwice) {
  Toy toy("wan-a14b");
  const Request r = toy.request({});
  EXPECT_EQ(toy.run(r).bytes, toy.run(r).bytes);
}

TEST(Pipeline, LeavesNoTraceInMemory) {
  Toy toy("wan");
  toy.run(toy.request({}));
  EXPECT_EQ(toy.cpu.c.request().used(), 0u);
  EXPECT_EQ(toy.cpu.c.scratch().used(), 0u);
}

// A replay takes no memory, so what it works in must be where its recording had it. A recording is known by its key: it
// stays good as long as nothing goes that it works in.
struct Recordings final : Segments {
  std::map<std::string, int> runs;
  int cleared = 0, trims = 0;
  void run(Ctx& c, std::string_view key, const std::function<void()>& body) override {
    ++runs[cat(key, " @", c.scratch().used())];
    body();
  }
  void clear() override { runs.clear(), ++cleared; }
  void trimmed(size_t, size_t) override { runs.clear(), ++trims; }
};

TEST(Pipeline, KeepsPagesAndRecordingsForTheNextJobOfAShape) {
  for (const char* kind : {"wan", "wan-a14b"}) {
    Toy toy(kind);
    toy.cpu.rank.segments = std::make_unique<Recordings>();
    auto& seen = dynamic_cast<Recordings&>(*toy.cpu.rank.segments);
    seen.cleared = 0;
    const auto job = [&](const char* prompt, int steps, int width) {
      Ask ask;
      ask.prompt = prompt, ask.steps = steps, ask.width = width;
      toy.run(toy.request(ask));
      return std::pair(seen.runs.size(), std::pair(toy.cpu.c.request().committed(), toy.cpu.c.scratch().committed()));
    };
    const auto first = job("a cat", 4, 64);
    EXPECT_EQ(first.first, std::string(kind) == "wan" ? 7u : 14u)
        << "head, blocks and tail of each branch and expert, and the end of each expert's steps";
    EXPECT_EQ(job("a dog that chases two cats over the hills of a distant land", 7, 64), first);
    EXPECT_GT(job("a cat", 4, 80).first, first.first);
    EXPECT_EQ(job("a cat", 3, 64).first, 2 * first.first) << "another shape's recordings leave these alone";
    EXPECT_EQ(seen.cleared, 0);
    EXPECT_EQ(seen.trims, 0);
    trim(toy.cpu.rank);
    EXPECT_EQ(seen.trims, 1);
    EXPECT_EQ(toy.cpu.c.scratch().committed(), 0u);
    EXPECT_EQ(toy.cpu.c.request().committed(), 0u);
  }
}

// Public report: scales swapped between tools. The first is the high-noise expert's, and the first steps are its own.
TEST(Pipeline, GivesTheFirstScaleToTheHighNoiseExpert) {
  Toy toy("wan-a14b");
  Ask ask;
  ask.prompt = "a cat";  // not the negative one, or guidance has nothing to scale
  ask.steps = 4, ask.guidance_scale = 4, ask.guidance_scale_2 = 4, ask.recipe = "folder";
  const auto latents = [&](const Ask& a) {
    Taps taps(toy.cpu.rank);
    toy.run(toy.request(a));
    return std::vector{taps.values("latents.0"), taps.values("latents.1"), taps.values("latents.2")};
  };
  const auto base = latents(ask);
  ask.guidance_scale_2 = 9;
  const auto low = latents(ask);
  EXPECT_EQ(base[0], low[0]);
  EXPECT_EQ(base[1], low[1]);
  EXPECT_NE(base[2], low[2]);
  ask.guidance_scale_2 = 4, ask.guidance_scale = 9;
  EXPECT_NE(base[0], latents(ask)[0]);
}

TEST(Pipeline, StopsBetweenSteps) {
  Toy toy("wan");
  std::stop_source stop;
  int last = 0;
  Hooks hooks{stop.get_token(), [&](const Progress& now) {
                if (now.stage == Stage::denoise && now.done == 2) stop.request_stop();
                if (now.stage == Stage::denoise) last = now.done;
              }};
  Ask ask;
  ask.steps = 6;
  const Request r = toy.request(ask);
  EXPECT_EQ(words([&] { toy.run(r, hooks); }), "cancelled");
  EXPECT_EQ(last, 2);
  EXPECT_EQ(toy.cpu.c.request().used(), 0u);
  EXPECT_EQ(toy.run(r).got, 9);  // and the next one works
}

TEST(Pipeline, ReportsProgressThatOnlyGrows) {
  Toy toy("wan");
  std::vector<std::pair<Stage, int>> seen;
  toy.run(toy.request({}), {{}, [&](const Progress& now) { seen.emplace_back(now.stage, now.done); }});
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen.back().first, Stage::encode);
}

TEST(Pipeline, RefusesToShowWhatIsNotFinite) {
  for (const auto& [part, said] : {std::pair{"transformer", "denoise: step 1 of 2 (transformer) holds "},
                                   {"vae", "vae_decode: latent frame 0 holds "}}) {
    Toy toy("wan");
    const Request r = toy.request({});
    spoil(*toy.cpu.rank.weights.at(part).at(""));
    const std::string error = words([&] { toy.run(r); });
    EXPECT_TRUE(error.starts_with(said)) << error;
  }
}

// Steps before it count nothing, and the one that follows is not begun.
TEST(Pipeline, NamesTheStepThatIsNotFinite) {
  Toy toy("wan");
  Ask ask;
  ask.steps = 4;
  int last = 0;
  const auto look = [&](const Progress& now) {
    if (now.stage != Stage::denoise) return;
    last = now.done;
    if (now.done == 2) spoil(*toy.cpu.rank.weights.at("transformer").at(""));
  };
  const std::string error = words([&] { toy.run(toy.request(ask), {{}, look}); });
  EXPECT_TRUE(error.starts_with("denoise: step 3 of 4 (transformer) holds ")) << error;
  EXPECT_EQ(last, 2);
}

// The end of a step names the same addresses in all steps of an expert, so that one recording serves them.
TEST(Pipeline, EndsTheStepsOfAnExpertWithOneSegment) {
  struct Names : Segments {
    std::map<std::string, int, std::less<>>& seen;
    explicit Names(std::map<std::string, int, std::less<>>& all) : seen(all) {}
    void run(Ctx& c, std::string_view key, const std::function<void()>& body) override {
      const int64_t before = calls(c);
      body();
      if (key.starts_with("guidance and solver ")) {
        ++seen[std::string(key)];
        EXPECT_EQ(calls(c), before + 1);
      } else {
        EXPECT_EQ(calls(c), before);
      }
    }
    static int64_t calls(Ctx& c) { return c.counts()["guided_multistep"].calls; }
  };
  for (const auto& [kind, experts] : {std::pair{"wan", 1u}, {"wan-a14b", 2u}}) {
    std::map<std::string, int, std::less<>> seen;
    Toy toy(kind);
    toy.cpu.rank.segments = std::make_unique<Names>(seen);
    Ask ask;
    ask.steps = 6;
    toy.run(toy.request(ask));
    EXPECT_EQ(seen.size(), experts) << kind;
    int steps = 0;
    for (const auto& [key, count] : seen) steps += count;
    EXPECT_EQ(steps, 6) << kind;
  }
}

// Public report: half-precision text vectors that overflowed made a video of nothing.
TEST(Pipeline, RefusesTextVectorsThatAreNotFinite) {
  struct Overflowing : nn::Random {
    Overflowing() : Random(0) {}
    void read(const std::string& key, const Shape& shape, const nn::Slice& part, const Tensor& to) override {
      Random::read(key, shape, part, to);
      if (key == "encoder.final_layer_norm.weight") to.data<float>()[0] = std::numeric_limits<float>::infinity();
    }
  };
  CpuCtx cpu;
  ModelSource source = toy_source("wan");
  source.parts.at("text_encoder").weights = std::make_unique<Overflowing>();
  TextToVideo pipeline(cpu, source, DType::f32, DType::f32, {});
  Frames frames;
  const std::string said = words([&] { run_toy(cpu, pipeline, source, toy_request(source, {}), {}, frames); });
  EXPECT_TRUE(said.starts_with("text_encode: the prompt embedding holds ")) << said;
  EXPECT_EQ(frames.announced, 0);
}

// Public reports: a black or grey video, and a job that calls itself done.
TEST(Pipeline, RefusesAVideoOfOneColour) {
  struct Blank : nn::Random {
    Blank() : Random(0) {}
    void read(const std::string& key, const Shape& shape, const nn::Slice& part, const Tensor& to) override {
      Random::read(key, shape, part, to);
      if (key.starts_with("decoder.conv_out.")) std::memset(to.raw(), 0, static_cast<size_t>(to.bytes()));
    }
  };
  CpuCtx cpu;
  ModelSource source = toy_source("wan");
  source.parts.at("vae").weights = std::make_unique<Blank>();
  TextToVideo pipeline(cpu, source, DType::f32, DType::f32, {});
  Frames frames;
  EXPECT_EQ(words([&] { run_toy(cpu, pipeline, source, toy_request(source, {}), {}, frames); }),
            "vae_decode: every pixel of the video is the same; the latents say nothing");
  EXPECT_FALSE(frames.finished);
}

// Public reports: guidance that was always 4; an empty negative prompt taken for none.
TEST(Pipeline, EveryGuidanceAndNegativePromptCounts) {
  Toy toy("wan");
  const auto frames = [&](double guidance, const std::optional<std::string>& negative) {
    Ask ask;
    ask.prompt = "a cat", ask.num_frames = 5;
    ask.guidance_scale = guidance, ask.negative_prompt = negative;
    const std::vector<uint8_t> bytes = toy.run(toy.request(ask)).bytes;
    return std::string(bytes.begin(), bytes.end());
  };
  std::set<std::string> seen;
  for (const double guidance : {1.0, 4.0, 10.0}) seen.insert(frames(guidance, {}));
  seen.insert(frames(4, ""));
  seen.insert(frames(4, "a dog"));
  EXPECT_EQ(seen.size(), 5u);
}

TEST(Facts, RefuseTheVaeOfAnotherModel) {
  ModelSource source = toy_source("wan");
  source.parts.at("transformer").config["in_channels"] = 8;
  source.parts.at("transformer").config["out_channels"] = 8;
  EXPECT_TRUE(
      words([&] {
        model_info(source);
      }).ends_with("this VAE makes latents of 16 channels, the transformer takes 8; take both from one repository"));
}

}  // namespace
}  // namespace zoetrope
