// One job from prompt to file, what it reports, and what may and may not change its bytes.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "config/resources.h"
#include "engine/jobs.h"

namespace zoetrope {
namespace {

std::set<std::string> keys_of(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

TEST(Engine, ReportsEverything) {
  const TempFolder folder;
  Engine engine(toy_config());
  const Json report = run_to(engine, small_ask(), folder / "x.safetensors");
  EXPECT_EQ(keys_of(report),
            (std::set<std::string>{"model",           "recipe",      "seed",     "noise",      "width",
                                   "height",          "num_frames",  "fps",      "steps",      "guidance_scale",
                                   "flow_shift",      "schedule",    "prompt",   "device",     "residency",
                                   "dtype",           "vae_dtype",   "threads",  "ranks",      "mesh",
                                   "tuned",           "table_hash",  "warnings", "guardrails", "versions",
                                   "timings_s",       "collectives", "flops",    "output",     "peak_memory_bytes",
                                   "negative_prompt", "cuda_graph"}));
  EXPECT_EQ(report["model"], toy_folder().string());
  EXPECT_EQ(report["recipe"], "toy/original");
  EXPECT_EQ(report["seed"], 7);
  EXPECT_EQ(report["noise"], "torch-cpu");
  EXPECT_EQ(report["flow_shift"], 5.0);
  EXPECT_EQ(report["negative_prompt"], std::string(resource("prompts/wan_negative.txt")));
  EXPECT_EQ(report["device"], name(toy_config().device));
  EXPECT_EQ(report["dtype"], "fp32");
  EXPECT_EQ(report["threads"], 2);
  EXPECT_EQ(report["ranks"], 1);
  EXPECT_EQ(report["cuda_graph"], device::traits().device == DeviceKind::cuda);
  EXPECT_EQ(report["tuned"], !report["table_hash"].is_null());
  EXPECT_EQ(report["guardrails"], "none");
  EXPECT_EQ(report["warnings"], Json({"random weights: this is meant to be noise"}));
  EXPECT_EQ(keys_of(report["versions"]),
            (std::set<std::string>{"zoetrope", "git", "cuda", "driver", "cudnn", "gpu", "nccl", "onednn"}));
  EXPECT_FALSE(report["versions"]["zoetrope"].get<std::string>().empty());
  EXPECT_EQ(report["output"]["path"], (folder / "x.safetensors").string());
  EXPECT_EQ(report["output"]["width"], 64);
  EXPECT_EQ(report["output"]["height"], 48);
  EXPECT_EQ(report["output"]["num_frames"], 5);
  EXPECT_EQ(report["output"]["fps"], 16);
  ASSERT_EQ(report["peak_memory_bytes"].size(), 1u);
  EXPECT_EQ(keys_of(report["peak_memory_bytes"][0]),
            (std::set<std::string>{"weights", "request", "scratch", "exchange", "total", "predicted", "device",
                                   "device_predicted"}));
  EXPECT_GT(report["flops"]["forward"], 0.0);
}

TEST(Engine, RecordsSegmentsUnlessToldNotTo) {
  struct Counted : Segments {
    int& runs;
    explicit Counted(int& all) : runs(all) {}
    void run(Ctx&, std::string_view, const std::function<void()>& body) override { body(), ++runs; }
  };
  std::set<std::string> hashes;
  for (const bool graph : {true, false}) {
    int runs = 0;
    EngineConfig config = toy_config();
    config.cuda_graph = graph;
    config.prepare = [&](Rank& rank, int) { rank.segments = std::make_unique<Counted>(runs); };
    Engine engine(config);
    const Json report = run(engine, small_ask());
    EXPECT_EQ(report["cuda_graph"], graph);
    EXPECT_EQ(runs > 0, graph);
    hashes.insert(frames_hash(report));
  }
  EXPECT_EQ(hashes.size(), 1u);
}

TEST(Engine, ReportsTimesThatAddUp) {
  Engine engine(toy_config());
  const Json t = run(engine, small_ask()).at("timings_s");
  EXPECT_EQ(keys_of(t), (std::set<std::string>{"load", "text_encode", "denoise", "steps", "vae_decode", "encode",
                                               "total", "tail"}));
  EXPECT_EQ(t["steps"].size(), 2u);
  double sum = 0;
  for (const char* stage : {"load", "text_encode", "denoise", "vae_decode", "encode"}) {
    EXPECT_GE(t[stage], 0.0) << stage;
    sum += t[stage].get<double>();
  }
  EXPECT_LE(sum, t["total"]);
  EXPECT_LE(t["steps"][0].get<double>() + t["steps"][1].get<double>(), t["denoise"]);
}

// Public report: no seed given, and nobody can make the video again.
TEST(Engine, ReportsTheSeedThatItChose) {
  Engine engine(toy_config());
  Ask ask = small_ask();
  ask.seed.reset();
  const Json first = run(engine, ask);
  EXPECT_NE(frames_hash(run(engine, ask)), frames_hash(first));  // another one is drawn each time
  ask.seed = first.at("seed").get<uint64_t>();
  EXPECT_EQ(fresh_hash(toy_config(), ask), frames_hash(first));
}

double passes_a_step(Engine& engine, Ask ask) {
  ask.steps = 2;
  run(engine, ask);  // from now on the negative prompt's vectors are there
  const Json two = run(engine, ask);
  ask.steps = 4;
  const Json four = run(engine, ask);
  const auto total = [](const Json& report) { return report.at("flops").at("total").get<double>(); };
  return (total(four) - total(two)) / 2 / two.at("flops").at("forward").get<double>();
}

TEST(Engine, RunsOnePassAStepWithoutGuidanceAndTwoWithIt) {
  Engine engine(toy_config());
  Ask ask = small_ask();
  ask.guidance_scale = 1;
  EXPECT_NEAR(passes_a_step(engine, ask), 1, 0.02);
  ask.guidance_scale = 4;
  EXPECT_NEAR(passes_a_step(engine, ask), 2, 0.04);
  ask.negative_prompt = "";  // empty is not "none"
  EXPECT_NEAR(passes_a_step(engine, ask), 2, 0.04);
}

// Public report: a field of the request that was never handed on.
TEST(Engine, HandsEveryFieldOn) {
  Engine engine(toy_config());
  const std::string base = frames_hash(engine, small_ask());
  const auto changed = [&](auto change) {
    Ask ask = small_ask();
    change(ask);
    const Json report = run(engine, ask);
    EXPECT_NE(frames_hash(report), base);
    return report;
  };
  EXPECT_EQ(changed([](Ask& ask) { ask.guidance_scale = 10; })["guidance_scale"], 10.0);
  EXPECT_EQ(changed([](Ask& ask) { ask.flow_shift = 3; })["flow_shift"], 3.0);
  EXPECT_EQ(changed([](Ask& ask) { ask.steps = 3; })["steps"], 3);
  EXPECT_EQ(changed([](Ask& ask) { ask.seed = 8; })["seed"], 8);
  EXPECT_EQ(changed([](Ask& ask) { ask.schedule = "diffusers"; })["schedule"], "diffusers");
  EXPECT_EQ(changed([](Ask& ask) { ask.negative_prompt = "a dog"; })["negative_prompt"], "a dog");
  EXPECT_EQ(changed([](Ask& ask) { ask.prompt = "a dog"; })["prompt"], "a dog");
  EXPECT_EQ(changed([](Ask& ask) { ask.noise = "torch-cuda:132x8"; })["noise"], "torch-cuda:132x8");
}

TEST(Engine, GivesTheSameBytesOnOneThreadAndTwo) {
  for (const DType type : {DType::f32, DType::bf16}) {
    EngineConfig one = toy_config("wan-a14b");
    one.dtype = one.vae_dtype = type;
    EngineConfig two = one;
    one.threads = 1, two.threads = 2;
    EXPECT_EQ(fresh_hash(one, small_ask()), fresh_hash(two, small_ask())) << type;
  }
}

TEST(Engine, StaysNearItselfInBf16) {
  const auto frames = [](DType type) {
    EngineConfig config = toy_config();
    config.dtype = config.vae_dtype = type;
    Engine engine(config);
    return frames_of(engine, small_ask());
  };
  const auto exact = frames(DType::f32), rounded = frames(DType::bf16);
  ASSERT_EQ(exact.size(), rounded.size());
  double off = 0, size = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    off += std::pow(exact[i] - rounded[i], 2);
    size += std::pow(exact[i] - 127.5, 2);
  }
  EXPECT_GT(off, 0);  // it did run in another type
  EXPECT_LE(std::sqrt(off / size), 0.05);
}

TEST(Engine, WarnsOfWhatThePromptsHoldBeyondTheModel) {
  Engine engine(toy_config());
  Ask ask = small_ask();
  ask.prompt.clear();
  for (int i = 0; i < 600; ++i) ask.prompt += " a";
  const std::string cut = " tokens with the end token, the model reads 512; what comes later is left out";
  const std::string random = "random weights: this is meant to be noise";
  EXPECT_EQ(run(engine, ask)["warnings"], Json({random, "prompt: 601" + cut}));
  ask.negative_prompt = ask.prompt + " a";
  EXPECT_EQ(run(engine, ask)["warnings"], Json({random, "prompt: 601" + cut, "negative prompt: 602" + cut}));
  ask.prompt = "a", ask.negative_prompt = "";
  EXPECT_EQ(run(engine, ask)["warnings"], Json({random}));
}

}  // namespace
}  // namespace zoetrope
