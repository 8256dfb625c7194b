// `bench` and `tune`: what they print and write, and how wrong use is refused.
#include <fstream>

#include "base/json.h"
#include "cli/command.h"

namespace zoetrope {
namespace {

Words bench(const std::string& what, const Words& more = {}) {
  return Words{"bench", what, "--model", toy().string(), "--size", "64x48", "--num-frames", "5", "--runs", "2"} + more;
}

TEST(Bench, MeasuresAndChecksEachPart) {
  const TempFolder folder;
  for (const char* what : {"step", "vae", "attention"}) {
    const std::string file = (folder / what).string();
    const Ran ran = zoetrope(bench(what, {"--profile", "--json", file}));
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.out.find(cat(what, ": ")), std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.find(" 0.0 TFLOP/s"), std::string::npos) << ran.out;  // a CPU's rates have digits, too
    const Json json = read_json(file);
    EXPECT_EQ(json.at("bench"), what);
    EXPECT_EQ(json.at("seconds").at("runs"), 2);
    EXPECT_GT(json.at("seconds").at("median"), 0);
    EXPECT_GT(json.at("flops"), 0);
    EXPECT_EQ(json.at("digest").get<std::string>().size(), 16u);
    EXPECT_EQ(json.at("tuned"), false);
    double share = 0;
    for (const Json& row : json.at("profile")) share += row.at("share").get<double>();
    EXPECT_NEAR(share, 1, 1e-6);
  }
}

TEST(Bench, LoadsBesideAPlainReadOfTheSameFiles) {
  const TempFolder folder;
  const std::string file = (folder / "load.json").string();
  const Ran ran = zoetrope(bench("load", {"--part", "vae", "--json", file}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json json = read_json(file);
  EXPECT_EQ(json.at("file_bytes"),
            static_cast<int64_t>(std::filesystem::file_size(toy() / "vae/diffusion_pytorch_model.safetensors")));
  EXPECT_GT(json.at("warm").at("ratio"), 0);
  EXPECT_GT(json.at("warm").at("spent_s").at("map"), 0);
}

TEST(Bench, ASparseCheckpointHasTheSameShapesAndGoesAway) {
  const TempFolder folder;
  const std::string file = (folder / "load.json").string(), place = (folder / "sparse").string();
  const Ran ran = zoetrope(bench("load", {"--stored", "fp16", "--folder", place, "--json", file}));
  ASSERT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(read_json(file).at("sparse"), true);
  EXPECT_FALSE(std::filesystem::exists(folder / "sparse"));
}

TEST(Bench, AskedToStopLeavesNothingOfASparseCheckpoint) {
  const TempFolder folder;
  const std::string place = (folder / "a/b").string();
  Program program(program_file, {"bench", "load", "--model", "random:wan2.1-t2v-1.3b", "--stored", "bf16", "--folder",
                                 place, "--json", (folder / "x.json").string()});
  for (const Stopwatch watch; watch.seconds() < 60 && !std::filesystem::exists(folder / "a/b/transformer");)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  program.signal(SIGTERM);
  expect_refusal(program.wait(), "cancelled", 130);
  EXPECT_EQ(folder.count(), 0u);
}

struct BenchRefused : Refused {};

TEST_F(BenchRefused, AFileThatCannotBeWrittenBeforeAnythingIsMeasured) {
  const Ran ran = zoetrope(bench("vae", {"--json", (folder / "none/x.json").string()}));
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(ran.err.find("none/x.json"), std::string::npos) << ran.err;
}

TEST_F(BenchRefused, WhatIsNotKnownOrNotBuilt) {
  expect(bench("steps"), "bench: \"steps\" is not known; use step, vae, attention or load");
  for (const char* later : {"collectives", "serve"})
    expect(bench(later), cat("bench: ", later, ": not built in this version; step, vae, attention and load are"));
  expect({"bench", "step", "--model", toy().string(), "--runs", "0"}, "runs: 0 asked for; 1 to 1000 make sense");
  expect(bench("load", {"--stored", "fp8", "--folder", "w"}), "stored: \"fp8\" is not known; use fp32, bf16 or fp16");
  expect(
      {"bench", "load", "--model", "random:wan2.1-t2v-1.3b"},
      "bench: load: random:wan2.1-t2v-1.3b has no files; --stored TYPE --folder DIR makes sparse ones in its layout");
  expect(bench("load", {"--stored", "bf16"}), "bench: load: --stored and --folder belong together");
  expect(bench("load", {"--part", "clip"}), cat(toy().string(), ": has no clip"));
  expect(bench("step", {"--part", "transformer_2"}), cat(toy().string(), ": has no transformer_2"));
  expect(bench("step", {"--tuning", "t.json"}),
         "tuning: t.json: a table is for a GPU; leave --tuning out, or use --device cuda");
}

TEST_F(BenchRefused, WhatWouldBeIgnored) {
  expect(bench("step", {"--stored", "bf16"}), "bench: step: --stored is for `bench load`; leave it out");
  expect(bench("vae", {"--folder", "w"}), "bench: vae: --folder is for `bench load`; leave it out");
  expect(bench("load", {"--profile"}), "bench: load: runs no ops to show; leave --profile out");
  expect(bench("step", {"--vae-dtype", "fp8"}), "dtype \"fp8\" is not known; use fp32 or bf16");
  expect(bench("step", {"--part", "vae"}), "step: --part vae is no transformer; transformer and transformer_2 are");
  expect(bench("vae", {"--part", "text_encoder"}), "bench: vae: --part text_encoder is not the VAE; leave it out");
  expect(bench("step", {"--noise", "x"}), "option --noise is not known (zoetrope bench --help lists all)");
}

TEST_F(BenchRefused, MoreMemoryThanThereIs) {
  for (const char* what : {"step", "attention"}) {
    const Ran ran =
        zoetrope({"bench", what, "--model", toy().string(), "--size", "16384x16384", "--num-frames", "4093"});
    EXPECT_EQ(ran.status, 3);
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(ran.err.starts_with("zoetrope: memory: request needs ")) << ran.err;
    EXPECT_TRUE(ran.err.ends_with("; a smaller --size, fewer --num-frames or --dtype bf16 needs less\n")) << ran.err;
  }
}

TEST_F(BenchRefused, AFolderThatIsThere) {
  const std::string place = (folder / "w").string();
  std::filesystem::create_directories(folder / "w/transformer");
  expect(bench("load", {"--stored", "bf16", "--folder", place}),
         cat(place, "/transformer: exists already; name a folder that does not"));
  EXPECT_TRUE(std::filesystem::exists(folder / "w/transformer"));
}

TEST_F(BenchRefused, AFolderOfTheModelThatIsWrongByItsFile) {
  const std::filesystem::path model = folder / "model";
  std::filesystem::copy(toy(), model, std::filesystem::copy_options::recursive);
  Json config = read_json(model / "transformer/config.json");
  config["eps"] = "nan";
  std::ofstream(model / "transformer/config.json") << config.dump();
  expect({"bench", "load", "--model", model.string()},
         cat((model / "transformer/config.json").string(), ": \"eps\" is \"nan\", which is a string"));
}

TEST_F(BenchRefused, TuneWithoutAnythingToChooseFrom) {
  const Words tune{"tune", "step", "--model", toy().string(), "--out", (folder / "t.json").string()};
  expect(tune + Words{"--device", "cpu"}, "tune: device cpu has no plans to choose from; use --device cuda");
  expect(tune, "tune: fp32 has no plans to choose from; use --dtype bf16");
  Words other = tune;
  other[1] = "load";
  expect(other, "tune: \"load\" is not known; use step, vae or all");
}

}  // namespace
}  // namespace zoetrope
