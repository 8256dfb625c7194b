// What a job writes: the same frames as every kind, the same file twice, nothing before it is whole.
#include <gtest/gtest.h>

#include <algorithm>

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
