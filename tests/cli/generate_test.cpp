// A video from the command line: what goes where.
#include <gtest/gtest.h>

#include <sstream>

#include "base/json.h"
#include "cli/command.h"
#include "engine/engine.h"

namespace zoetrope {
namespace {

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Json report_of(const TempFolder& folder, const Words& more, const Program::Setting& setting = {}) {
  const std::string report = (folder / "r.json").string();
  const Ran ran = zoetrope(
      generate(toy().string(), (folder / "x.safetensors").string()) + Words{"--report", report} + more, setting);
  EXPECT_EQ(ran.status, 0) << ran.err;
  return read_json(report);
}

TEST(Generate, PrintsThePathAndALineAStep) {
  const TempFolder folder;
  const std::string out = (folder / "x.mp4").string();
  const Ran ran = zoetrope(generate(toy().string(), out) + Words{"--steps", "3"});
  EXPECT_EQ(ran.status, 2);  // given twice
  const Ran good = zoetrope(generate(toy().string(), out));
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(good.out, out + "\n");
  size_t steps = 0;
  for (const std::string& line : lines_of(good.err)) {
    if (line.starts_with("denoise ")) ++steps;
    EXPECT_EQ(line.find('\r'), std::string::npos) << line;
  }
  EXPECT_EQ(steps, 2u);
  for (const char* words : {"load 1/3, ", "denoise 2/2, ", "vae_decode 5/5, ", "64x48, 5 frames at 16 fps", "seed 7",
                            "warning: random weights: this is meant to be noise"})
    EXPECT_NE(good.err.find(words), std::string::npos) << words << "\n" << good.err;
  EXPECT_EQ(folder.count(), 1u);
}

TEST(Generate, IsQuietWhenAsked) {
  const TempFolder folder;
  const std::string out = (folder / "frames").string();
  const Ran ran = zoetrope(generate(toy().string(), out) + Words{"--quiet"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.out, out + "\n");
  EXPECT_EQ(ran.err, "");
}

TEST(Generate, GivesTheSameBytesTwice) {
  const TempFolder folder;
  for (const char* name : {"a.mp4", "b.mp4"})
    EXPECT_EQ(zoetrope(generate(toy().string(), (folder / name).string()) + Words{"--quiet"}).status, 0);
  EXPECT_EQ(read_file(folder / "a.mp4", 10u << 20), read_file(folder / "b.mp4", 10u << 20));
}

// Public report: the library and the server had other defaults than the command line.
TEST(Generate, GivesTheFramesOfTheEngine) {
  const TempFolder folder;
  EngineConfig config;
  config.model = toy();
  Engine engine(config);
  for (const char* recipe : {"original", "folder"}) {
    Ask ask;
    ask.prompt = "a cat", ask.width = 64, ask.height = 48, ask.num_frames = 5, ask.steps = 2, ask.seed = 7;
    ask.recipe = recipe;
    const Json own = engine.submit(ask, open_output(folder / "y.safetensors", {}, ""))->wait();
    EXPECT_EQ(report_of(folder, {"--recipe", recipe}).at("output").at("sha256_frames"),
              own.at("output").at("sha256_frames"));
  }
}

TEST(Generate, ReadsThePromptFromAFileOrStandardInput) {
  const TempFolder folder;
  const std::string typed = report_of(folder, {}).at("output").at("sha256_frames");
  Words arguments = generate(toy().string(), (folder / "x.safetensors").string());
  arguments.erase(arguments.begin() + 5, arguments.begin() + 7);  // --prompt "a cat"
  const std::string report = (folder / "r.json").string(), file = folder.put("prompt.txt", "a cat\n").string();
  for (const auto& [name, input] : {std::pair{file, ""}, {std::string("-"), "a cat\n"}}) {
    const Ran ran = zoetrope(arguments + Words{"--report", report, "--prompt-file", name},
                             {.input = input, .environment = {}, .folder = {}});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(read_json(report).at("output").at("sha256_frames"), typed);
  }
}

TEST(Generate, TakesValuesThatLookLikeOptionsOrLists) {
  const TempFolder folder;
  for (const char* prompt : {"--a cat", "-1", "[a, b]", "", "{}", "%s%n", "\"quoted\" text", "a=b"}) {
    Words arguments = generate(toy().string(), (folder / "x.safetensors").string()) +
                      Words{"--report", (folder / "r.json").string(), "--quiet"};
    *(std::find(arguments.begin(), arguments.end(), "--prompt") + 1) = prompt;
    EXPECT_EQ(zoetrope(arguments).status, 0) << prompt;
    EXPECT_EQ(read_json(folder / "r.json").at("prompt"), prompt);
  }
}

TEST(Generate, ReportsItsRecipe) {
  const TempFolder folder;
  const Json original = report_of(folder, {});
  EXPECT_EQ(original.at("recipe"), "toy/original");
  EXPECT_EQ(original.at("flow_shift"), 5.0);
  EXPECT_EQ(original.at("seed"), 7);
  const Json own = report_of(folder, {"--recipe", "folder", "--guidance-scale", "2.5", "--flow-shift", "7"});
  EXPECT_EQ(own.at("recipe"), "toy/folder");
  EXPECT_EQ(own.at("guidance_scale"), 2.5);
  EXPECT_EQ(own.at("flow_shift"), 7.0);
  EXPECT_EQ(own.at("negative_prompt"), "");
  EXPECT_EQ(folder.count(), 2u);  // the video and the report
}

TEST(Generate, TakesWidthAndHeightApart) {
  const TempFolder folder;
  Words arguments = generate(toy().string(), (folder / "x.safetensors").string());
  const auto size = std::find(arguments.begin(), arguments.end(), "--size");
  arguments.erase(size, size + 2);
  const std::string report = (folder / "r.json").string();
  EXPECT_EQ(zoetrope(arguments + Words{"--width", "48", "--height", "32", "--report", report}).status, 0);
  EXPECT_EQ(read_json(report).at("width"), 48);
  EXPECT_EQ(read_json(report).at("height"), 32);
}

TEST(Generate, NamesThePresets) {
  const TempFolder folder;
  const Ran ran =
      zoetrope({"generate", "--model", "random:wan2.9", "--prompt", "a", "--out", (folder / "x.mp4").string()});
  expect_refusal(ran, "random:wan2.9: no such preset; these are: wan2.1-t2v-1.3b, wan2.1-t2v-14b, wan2.2-t2v-a14b");
  expect_refusal(zoetrope(generate("random:", (folder / "x.mp4").string())),
                 "model: no name given; use a folder, a Hugging Face name like owner/name, or random:NAME");
  expect_refusal(
      zoetrope(generate("wan2.9", (folder / "x.mp4").string())),
      "wan2.9: no such folder; give a folder in the Diffusers layout, a Hugging Face name like owner/name, or "
      "random:NAME with one of wan2.1-t2v-1.3b, wan2.1-t2v-14b, wan2.2-t2v-a14b");
}

TEST(Generate, FindsAModelInTheHubCache) {
  const TempFolder folder;
  const auto repository = folder / "hub/models--someone--toy";
  folder.put("hub/models--someone--toy/refs/main", "abc\n");
  std::filesystem::create_directories(repository / "snapshots");
  std::filesystem::create_directory_symlink(toy(), repository / "snapshots/abc");
  Program::Setting setting;
  setting.environment = {{"HF_HUB_CACHE", (folder / "hub").string()}};
  const std::string report = (folder / "r.json").string();
  const Ran ran = zoetrope(generate("someone/toy", (folder / "x.mp4").string()) + Words{"--report", report}, setting);
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(read_json(report).at("model"), "someone/toy");  // and not where the cache keeps it
}

}  // namespace
}  // namespace zoetrope
