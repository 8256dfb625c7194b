// One job from prompt to file, what it reports, and what may and may not change its bytes.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "config/resources.h"
#include "engine/jobs.h"
#include "io/image.h"
#include "io/mp4.h"
#include "io/safetensors.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

std::string hash_of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

Json run_to(Engine& engine, const Ask& ask, const fs::path& target) {
  return engine.submit(ask, open_output(target, programs, ""))->wait();
}

std::set<std::string> keys_of(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

TEST(Engine, WritesTheSameFramesAsEveryKind) {
  const TempFolder folder;
  Engine engine(toy_config());
  const Json tensors = run_to(engine, small_ask(), folder / "x.safetensors");
  const std::string wanted = frames_hash(tensors);
  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.find("frames")->shape, Shape({5, 48, 64, 3}));
  EXPECT_EQ(hash_of(file.bytes(*file.find("frames"))), wanted);

  EXPECT_EQ(frames_hash(run_to(engine, small_ask(), folder / "frames/")), wanted);
  const Video images = read_frame_folder(folder / "frames");
  EXPECT_EQ(images.frames, 5);
  EXPECT_EQ(hash_of(std::as_bytes(std::span(images.rgb))), wanted);

  const Json movie = run_to(engine, small_ask(), folder / "x.mp4");
  EXPECT_EQ(frames_hash(movie), wanted);
  const Json facts = probe_mp4(folder / "x.mp4", programs + "/zoetrope-mp4");
  EXPECT_EQ(facts.at("frames"), 5);
  EXPECT_EQ(facts.at("fps"), "16/1");
  const Json recipe = parse_json(facts.at("comment").get<std::string>(), "comment");
  EXPECT_EQ(recipe.at("seed"), 7);
  EXPECT_EQ(recipe.at("prompt"), "a cat");
  EXPECT_EQ(recipe.at("recipe"), "toy/original");
  EXPECT_EQ(folder.count(), 3u);  // and nothing besides
}

TEST(Engine, GivesTheSameFileFromTwoProcesses) {  // as far as one process can tell
  const TempFolder folder;
  for (const char* kind : {"mp4", "safetensors"}) {
    std::vector<std::string> files;
    for (const char* name : {"a.", "b."}) {
      Engine engine(toy_config());
      run_to(engine, small_ask(), folder / (std::string(name) + kind));
      files.push_back(read_file(folder / (std::string(name) + kind), 10u << 20));
    }
    EXPECT_EQ(files[0], files[1]) << kind;
  }
}

TEST(Engine, ReportsEverything) {
  const TempFolder folder;
  Engine engine(toy_config());
  const Json report = run_to(engine, small_ask(), folder / "x.safetensors");
  EXPECT_EQ(keys_of(report),
            (std::set<std::string>{"model",          "recipe",      "seed",     "noise",      "width",
                                   "height",         "num_frames",  "fps",      "steps",      "guidance_scale",
                                   "flow_shift",     "schedule",    "prompt",   "device",     "residency",
                                   "dtype",          "vae_dtype",   "threads",  "ranks",      "mesh",
                                   "tuned",          "table_hash",  "warnings", "guardrails", "versions",
                                   "timings_s",      "collectives", "flops",    "output",     "peak_memory_bytes",
                                   "negative_prompt"}));
  EXPECT_EQ(report["model"], toy_folder().string());
  EXPECT_EQ(report["recipe"], "toy/original");
  EXPECT_EQ(report["seed"], 7);
  EXPECT_EQ(report["noise"], "torch-cpu");
  EXPECT_EQ(report["flow_shift"], 5.0);
  EXPECT_EQ(report["negative_prompt"], std::string(resource("prompts/wan_negative.txt")));
  EXPECT_EQ(report["device"], "cpu");
  EXPECT_EQ(report["dtype"], "fp32");
  EXPECT_EQ(report["threads"], 2);
  EXPECT_EQ(report["ranks"], 1);
  EXPECT_EQ(report["tuned"], false);
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

TEST(Engine, ReportsProgressThatOnlyGrowsAndEndsBeforeTheFileIsThere) {
  const TempFolder folder;
  Engine engine(toy_config());
  std::vector<std::pair<Stage, int>> seen;
  bool there = true;
  const auto job = engine.submit(small_ask(), open_output(folder / "x.mp4", programs, ""), [&](const Progress& now) {
    seen.emplace_back(now.stage, now.done);
    if (now.stage < Stage::encode || now.done == 0) there = fs::exists(folder / "x.mp4");
  });
  job->wait();
  EXPECT_EQ(std::ranges::adjacent_find(seen, std::ranges::greater_equal()), seen.end());
  EXPECT_EQ(seen.front(), std::pair(Stage::load, 0));  // says what will stay in memory
  EXPECT_EQ(seen.back(), std::pair(Stage::encode, 1));
  for (const Stage stage : {Stage::text_encode, Stage::encode})  // what has no measure says when it ends
    for (const int done : {0, 1}) EXPECT_EQ(std::ranges::count(seen, std::pair(stage, done)), 1) << name(stage) << done;
  EXPECT_FALSE(there);
  EXPECT_TRUE(fs::exists(folder / "x.mp4"));
  EXPECT_EQ(job->state(), JobState::done);
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

TEST(Engine, KeepsLongPromptsOutOfTheHelpersCommandLine) {  // the system bounds one argument to 128 KiB
  const TempFolder folder;
  Engine engine(toy_config());
  Ask ask = small_ask();
  ask.prompt = std::string(60'000, '"');
  std::string negative;
  for (int i = 0; i < 20'000; ++i) negative += "\u00e9";
  ask.negative_prompt = negative;
  const Json report = run_to(engine, ask, folder / "x.mp4");
  EXPECT_EQ(report["prompt"], ask.prompt);
  const Json facts = probe_mp4(folder / "x.mp4", programs + "/zoetrope-mp4");
  const Json recipe = parse_json(facts.at("comment").get<std::string>(), "comment");
  EXPECT_EQ(recipe["prompt"], std::string(8192, '"') + "...");
  EXPECT_EQ(recipe["negative_prompt"], negative.substr(0, 8192) + "...");
}

}  // namespace
}  // namespace zoetrope
