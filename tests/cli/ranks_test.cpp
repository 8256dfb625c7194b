// One request on several ranks, from the command line: threads, processes, launchers; and every way to lose one.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "base/deadline.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/program.h"
#include "comm/net.h"
#include "support/words.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

// Seconds. It takes two or three; where nobody noticed it would take the 120 of a wait that nothing ends.
constexpr double soon = 60;

struct Ranks : Refused {
  std::string video = (folder / "x.safetensors").string(), report = (folder / "r.json").string();

  Words small() const { return generate(toy().string(), video); }
  Words small(const Words& more) const { return small() + Words{"--report", report} + more; }

  Json report_of(const Words& more, const Program::Setting& setting = {}) {
    const Ran ran = zoetrope(small(more), setting);
    EXPECT_EQ(ran.status, 0) << ran.err;
    said = ran.err;
    return ran.status == 0 ? read_json(report) : Json();
  }
  std::string hash_of(const Words& more) { return report_of(more).at("output").at("sha256_frames"); }
  std::string config(const std::string& yaml) { return folder.put("c.yml", yaml).string(); }

  std::string said;
};

// ---- threads and settings -----------------------------------------------------------------------------------------

TEST_F(Ranks, AsThreadsGiveOneRanksFramesAndSayTheirMesh) {
  const std::string one = hash_of({});
  EXPECT_EQ(said.find("mesh: "), std::string::npos);
  const Json two = report_of({"--ranks", "2"});
  EXPECT_EQ(two.at("output").at("sha256_frames"), one);
  EXPECT_EQ(two.at("mesh"), "cfg 2");
  EXPECT_TRUE(said.starts_with("mesh: cfg 2, 2 ranks\n")) << said;
  const Json unguided = report_of({"--ranks", "2", "--guidance-scale", "1"});
  EXPECT_EQ(unguided.at("mesh"), "cfg 1 x ulysses 2");
}

// Found here: the settings were read, and nothing was made ready.
TEST_F(Ranks, MakeDeclaredShapesReadyBeforeTheRequest) {
  const std::string one = hash_of({}), shapes = "resolutions: [[48, 64]], num_frames: [8]",
                    file = config(cat("parallel_config: {cfg_size: 2}\ncompilation_config: {", shapes, "}"));
  for (const Words& how : {Words{}, Words{"--processes", "2"}}) {
    const Json report = report_of(Words{"--config", file} + how);
    EXPECT_EQ(report.at("output").at("sha256_frames"), one);
    ASSERT_EQ(report.at("warm_up").size(), 1u);
    EXPECT_EQ(report.at("warm_up")[0].at("num_frames"), 5);
    const size_t ready = said.find("warm-up: 64x48, 5 frames\n"), loaded = said.find("load 1/3");
    EXPECT_LT(ready, loaded) << said;
    EXPECT_EQ(said.find("load 1/3", loaded + 1), std::string::npos) << said;
  }
  const Json plain = report_of({"--config", config(cat("compilation_config: {", shapes, ", skip_warmup: true}"))});
  EXPECT_FALSE(plain.contains("warm_up"));
  const Json other = report_of({"--config", config("compilation_config: {resolutions: [[64, 64]], num_frames: [5]}")});
  EXPECT_FALSE(other.contains("warm_up")) << "one video, and of another shape";
  fs::remove(video), fs::remove(report);
  expect(small({"--config", config(cat("compilation_config: {", shapes, "}")), "--latents", "none.safetensors"}),
         "none.safetensors: cannot be opened: No such file or directory");
  expect(small({"--config", config("compilation_config: {resolutions: [[48, 100]], num_frames: [5]}")}),
         "compilation_config: 100x48, 5 frames: size: width 100 is not a multiple of 16; use 96 or 112");
}

TEST_F(Ranks, AreLaidOutByAFile) {
  const std::string one = hash_of({}),
                    file = config("parallel_config: {cfg_size: 2, ulysses_size: 2, parallel_vae_size: 2}");
  for (const char* option : {"--config", "--visual_gen_args"}) {
    const Json report = report_of({option, file});
    EXPECT_EQ(report.at("mesh"), "cfg 2 x ulysses 2");
    EXPECT_EQ(report.at("ranks"), 4);
    EXPECT_EQ(report.at("warnings").size(), 1u);  // that the weights are random
    EXPECT_EQ(report.at("output").at("sha256_frames"), one);
  }
  EXPECT_EQ(hash_of({"--config", file, "--ranks", "4"}), one);
}

TEST_F(Ranks, SayWhichKernelOfAttentionIsTaken) {
  const std::string file = config("attention_config: {backend: FA4}");
  EXPECT_EQ(report_of({"--config", file}).at("warnings").at(0),
            "attention_config.backend FA4: attention is chosen by device and type in this build, as AUTO does");
}

// The program in this process, up to the engine that it would make.
TEST_F(Ranks, TellTheEngineWhetherSegmentsAreRecorded) {
  for (const bool graph : {true, false}) {
    Words all = Words{"zoetrope"} + small() +
                Words{"--config", config(cat("cuda_graph_config: {enable: ", graph ? "true" : "false", "}"))};
    std::vector<char*> pointers;
    for (std::string& word : all) pointers.push_back(word.data());
    const int count = static_cast<int>(pointers.size());
    cli::World world = cli::World::from_environment(count, pointers.data());
    world.prepare = [&](EngineConfig& made) {
      EXPECT_EQ(made.cuda_graph, graph);
      fail(Code::invalid, "far enough");
    };
    EXPECT_EQ(words([&] { cli::run_program(world, count, pointers.data()); }), "far enough");
  }
}

TEST_F(Ranks, OfShippedLayoutsWork) {
  const std::string one = hash_of({});
  for (const int ranks : {1, 2, 4}) {
    const std::string file = cat(ZOETROPE_SOURCE_DIR "/configs/wan22_t2v_", ranks, "gpu.yml");
    EXPECT_EQ(hash_of({"--config", file}), one) << file;
  }
}

TEST_F(Ranks, ThatCannotBeAreRefusedBeforeAnyWeightIsRead) {
  const auto refused = [&](const std::string& yaml, const std::string& words, const Words& more = {}) {
    const std::string file = config(yaml);
    expect(small() + Words{"--config", file} + more, words);
  };
  const std::string file = (folder / "c.yml").string(), path = "parallel_config";
  refused(
      "parallel_config: {cfg_sise: 2}",
      file + ": key \"parallel_config.cfg_sise\" is not known; the nearest known one is \"parallel_config.cfg_size\"");
  refused("paralel_config: {cfg_size: 2}",
          file + ": key \"paralel_config\" is not known; the nearest known one is \"parallel_config\"");
  refused("parallel_config: {tp_size: 0}", "parallel_config.tp_size: 0 is outside 1 to 1024");
  refused("parallel_config: {cfg_size: 2, ulysses_size: 2}",
          "cfg 2 x ulysses 2 = 4 ranks, but 3 were started; layouts for 3: cfg 1 x ulysses 3, cfg 1 x tp 3, cfg 1 x "
          "ring 3, "
          "cfg 1 x attn2d 1x3, cfg 1 x attn2d 3x1",
          {"--ranks", "3"});
  refused(
      "parallel_config: {ring_size: 2, attn2d_size: [1, 2]}",
      "ring 2 and attn2d 1x2 both cut the context: choose one; layouts for 4: cfg 2 x ulysses 2, cfg 1 x ulysses 4, "
      "cfg 2 x tp 2, cfg 1 x tp 2 x ulysses 2, cfg 2 x ring 2, cfg 2 x attn2d 1x2, ...");
  refused("parallel_config: {cfg_size: 2, ulysses_size: 2, parallel_vae_size: 3}",
          "vae 3 straddles the CFG halves of 2 ranks: at most 2, or all 4; layouts for 4: cfg 2 x ulysses 2, cfg 1 x "
          "ulysses 4, cfg 2 x tp 2, cfg 1 x tp 2 x ulysses 2, cfg 2 x ring 2, cfg 2 x attn2d 1x2, ...");
  refused("quant_config: {dtype: fp8}", "quant_config: not built in this version; leave it out");
  expect(small() + Words{"--ranks", "2000"}, "ranks: 2000 asked for; at most 1024 make sense");
  expect(small() + Words{"--processes", "2", "--ranks", "3"},
         "processes: 2 for 3 ranks; a process holds one rank, threads hold several: leave --processes out");
}

// ---- processes ----------------------------------------------------------------------------------------------------

TEST_F(Ranks, AsProcessesGiveOneRanksFrames) {
  const std::string one = hash_of({});
  const Json report = report_of({"--processes", "4"});
  EXPECT_EQ(report.at("output").at("sha256_frames"), one);
  EXPECT_EQ(report.at("mesh"), "cfg 2 x ulysses 2");
  EXPECT_EQ(report.at("peak_memory_bytes").size(), 4u);
  EXPECT_EQ(folder.count(), 2u);
}

TEST_F(Ranks, AsProcessesDrawOneSeedAndReadOnePrompt) {
  Words words = {"generate",
                 "--model",
                 toy().string(),
                 "--out",
                 video,
                 "--size",
                 "64x48",
                 "--prompt-file",
                 "-",
                 "--steps",
                 "1",
                 "--num-frames",
                 "1",
                 "--report",
                 report,
                 "--processes",
                 "2"};
  const Ran ran = zoetrope(words, {.input = "a cat\n", .environment = {}, .folder = {}});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(read_json(report).at("prompt"), "a cat\n");
}

TEST_F(Ranks, AsProcessesRefuseInOneLine) {
  expect(generate(toy().string(), video) + Words{"--processes", "2", "--fps", "0"}, "fps: 0 is outside 1 to 240");
  expect({"generate", "--model", toy().string(), "--out", video, "--prompt", "a", "--size", "64x47", "--processes", "2",
          "--quiet"},
         "size: height 47 is not a multiple of 16; use 32 or 48");
}

// Long enough to be met in its steps.
Words longer(const std::string& out) {
  return {"generate", "--model", toy().string(), "--out",        out, "--prompt", "a cat", "--size",
          "128x128",  "--steps", "500",          "--num-frames", "17"};
}

// Of a file in /proc, whose size is unknown.
std::string contents(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    try {
      const std::string stat = contents(entry.path() / "stat");
      if (std::stoi(stat.substr(stat.rfind(')') + 4)) == parent) children.push_back(std::stoi(name));
    } catch (const std::exception&) {  // it has gone meanwhile
    }
  }
  return children;
}

pid_t rank_process(pid_t parent, int rank, const std::string& variable = "RANK") {
  for (const pid_t child : children_of(parent)) {
    const std::string variables = '\0' + contents(cat("/proc/", child, "/environ"));
    if (variables.find(cat('\0', variable, '=', rank, '\0')) != variables.npos) return child;
  }
  return -1;
}

bool gone(pid_t process) {
  for (const Stopwatch watch; watch.seconds() < 10;) {
    if (::kill(process, 0) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

struct Lost : Ranks, testing::WithParamInterface<int> {};

TEST_P(Lost, ByKillEndsTheJobAndIsNamed) {
  Program program(program_file, longer((folder / "x.mp4").string()) + Words{"--processes", "2"});
  ASSERT_TRUE(program.wait_for("denoise 2/500"));
  const pid_t victim = rank_process(program.pid(), GetParam()), other = rank_process(program.pid(), 1 - GetParam());
  ASSERT_GT(victim, 0);
  ASSERT_GT(other, 0);
  const Stopwatch watch;
  ::kill(victim, SIGKILL);
  const Ran ran = program.wait();
  EXPECT_EQ(ran.status, 4);
  EXPECT_NE(ran.err.find(cat("\nzoetrope: rank ", GetParam(), ": its process ")), std::string::npos) << ran.err;
  EXPECT_LT(watch.seconds(), soon);
  EXPECT_TRUE(gone(other));
  EXPECT_EQ(folder.count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(EachRank, Lost, testing::Values(0, 1));

// Ten seconds are the least that a step is given, so the test takes longer.
TEST_F(Ranks, AProcessThatStandsStillIsNamed) {
  Program program(program_file, longer((folder / "x.mp4").string()) + Words{"--processes", "2"});
  ASSERT_TRUE(program.wait_for("denoise 2/500"));
  const auto children = children_of(program.pid());
  ::kill(rank_process(program.pid(), 1), SIGSTOP);
  const Ran ran = program.wait();
  EXPECT_EQ(ran.status, 4);
  EXPECT_NE(ran.err.find("\nzoetrope: axis cfg: "), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find(": rank 1 is not there after "), std::string::npos) << ran.err;
  EXPECT_TRUE(ran.err.ends_with(" s (waits of class step)\n")) << ran.err;
  for (const pid_t child : children) EXPECT_TRUE(gone(child));
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(Ranks, AsProcessesAreInterruptedTogether) {
  Program program(program_file, longer((folder / "x.mp4").string()) + Words{"--processes", "3"});
  ASSERT_TRUE(program.wait_for("denoise 2/500"));
  const auto children = children_of(program.pid());
  program.signal(SIGINT);
  const Ran ran = program.wait();
  EXPECT_EQ(ran.status, 130);
  EXPECT_TRUE(ran.err.ends_with("\nzoetrope: cancelled\n")) << ran.err;
  EXPECT_EQ(ran.err.find("zoetrope: "), ran.err.rfind("zoetrope: "));  // once
  EXPECT_EQ(children.size(), 3u);
  for (const pid_t child : children) EXPECT_TRUE(gone(child));
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(Ranks, AsProcessesDoNotOutliveTheirParent) {
  Program program(program_file, longer((folder / "x.mp4").string()) + Words{"--processes", "2"});
  ASSERT_TRUE(program.wait_for("denoise 2/500"));
  const auto children = children_of(program.pid());
  program.signal(SIGKILL);
  EXPECT_EQ(program.wait().status, 137);
  EXPECT_EQ(children.size(), 2u);
  for (const pid_t child : children) EXPECT_TRUE(gone(child));
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(Ranks, AsThreadsAreInterrupted) {
  Program program(program_file, longer((folder / "x.mp4").string()) + Words{"--ranks", "2"});
  ASSERT_TRUE(program.wait_for("denoise 2/500"));
  program.signal(SIGINT);
  const Ran ran = program.wait();
  EXPECT_EQ(ran.status, 130);
  EXPECT_TRUE(ran.err.ends_with("\nzoetrope: cancelled\n")) << ran.err;
  EXPECT_EQ(folder.count(), 0u);
}

// ---- launchers ----------------------------------------------------------------------------------------------------

// One program a rank, as any launcher starts them: what each was told may differ.
struct Launched : Ranks {
  std::vector<Ran> launch(const std::vector<Words>& commands, const std::string& token = "secret") {
    const uint16_t port = port_of(listen_at("127.0.0.1", 0));
    std::vector<std::unique_ptr<Program>> programs;
    for (size_t r = 0; r < commands.size(); ++r) {
      Program::Setting setting;
      setting.environment = {{"RANK", cat(r)},           {"WORLD_SIZE", cat(commands.size())},
                             {"LOCAL_RANK", cat(r)},     {"MASTER_ADDR", "127.0.0.1"},
                             {"MASTER_PORT", cat(port)}, {"ZOETROPE_TOKEN", token}};
      programs.push_back(std::make_unique<Program>(program_file, commands[r], setting));
    }
    std::vector<Ran> ran;
    for (const auto& program : programs) ran.push_back(program->wait());
    return ran;
  }
};

TEST_F(Launched, ProcessesGiveOneRanksFrames) {
  const std::string one = hash_of({});
  const auto ran = launch({small({}), small({})});
  for (const Ran& rank : ran) EXPECT_EQ(rank.status, 0) << rank.err;
  EXPECT_EQ(read_json(report).at("output").at("sha256_frames"), one);
  EXPECT_EQ(read_json(report).at("ranks"), 2);
  EXPECT_EQ(ran[1].out + ran[1].err, "");  // rank 0 speaks
}

TEST_F(Launched, ProcessesThatWereToldDifferentThingsAreNamed) {
  const auto said = [&](const Words& other, const Words& all = {}) {
    const auto ran = launch({small() + all, other + all});
    EXPECT_EQ(ran[0].status, 2) << ran[0].err;
    EXPECT_EQ(ran[1].status, 2) << ran[1].err;
    EXPECT_EQ(folder.count(), 0u);
    return ran[0].err.substr(ran[0].err.find("zoetrope: "));
  };
  Words prompt = small(), size = small();
  *(std::ranges::find(prompt, "a cat")) = "a dog";
  *(std::ranges::find(size, "64x48")) = "64x64";
  const std::string same = "; all ranks need the same request\n";
  EXPECT_EQ(said(prompt), "zoetrope: rank 1 was given prompt \"a dog\" but rank 0 prompt \"a cat\"" + same);
  EXPECT_EQ(said(size), "zoetrope: rank 1 was given height 64 but rank 0 height 48" + same);
  EXPECT_EQ(said(small() + Words{"--fps", "8"}), "zoetrope: rank 1 was given fps 8 but rank 0 no fps" + same);
  EXPECT_EQ(said(small() + Words{"--dtype", "bf16"}),
            "zoetrope: rank 1 was given dtype \"bf16\" but rank 0 dtype \"fp32\"" + same);
}

TEST_F(Launched, AProcessWithoutItsWeightsIsNamed) {
  const fs::path copy = folder / "copy";
  fs::copy(toy(), copy, fs::copy_options::recursive);
  for (const auto& file : fs::directory_iterator(copy / "transformer"))
    if (file.path().extension() == ".safetensors") fs::remove(file.path());
  const Stopwatch watch;
  const auto ran = launch({small(), generate(copy.string(), video)});
  EXPECT_NE(ran[0].status, 0);
  EXPECT_NE(ran[0].err.find(cat("zoetrope: rank 1: ", copy.string(), "/transformer")), std::string::npos) << ran[0].err;
  EXPECT_EQ(ran[1].status, 2) << ran[1].err;
  EXPECT_LT(watch.seconds(), soon);
  EXPECT_FALSE(fs::exists(video));
}

TEST_F(Launched, AProcessThatCannotReadWhatItWasGivenIsNamed) {
  const std::string no = (folder / "no").string();
  Words model = small(), prompt = small();
  *(std::ranges::find(model, toy().string())) = no;
  *(std::ranges::find(prompt, "--prompt")) = "--prompt-file", *(std::ranges::find(prompt, "a cat")) = no;
  for (const Words& other : {model, prompt}) {
    const Stopwatch watch;
    const auto ran = launch({small(), other, small()});
    EXPECT_EQ(ran[0].status, 2) << ran[0].err;
    EXPECT_NE(ran[0].err.find("zoetrope: rank 1: " + no), std::string::npos) << ran[0].err;
    EXPECT_TRUE(ran[1].err.starts_with("zoetrope: " + no)) << ran[1].err;
    EXPECT_NE(ran[2].status, 0);
    EXPECT_LT(watch.seconds(), soon);
    EXPECT_EQ(folder.count(), 0u);
  }
}

TEST_F(Launched, SaysWhatALauncherForgot) {
  Program::Setting setting;
  setting.environment = {{"RANK", "0"}};
  expect(small(), "RANK is set but WORLD_SIZE is not: a launcher sets both, or unset it", setting);
  setting.environment = {{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "127.0.0.1"}, {"ZOETROPE_TOKEN", "x"}};
  expect(small() + Words{"--ranks", "2"}, "ranks: 2 asked for, but a launcher started 3 processes; leave --ranks out",
         setting);
  setting.environment = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  EXPECT_EQ(zoetrope(small(), setting).status, 0);  // alone
}

// ---- mpirun -------------------------------------------------------------------------------------------------------

struct Mpirun : Ranks {
  void SetUp() override {
    if (zoetrope({"--version"}).out.find("mpirun (") == std::string::npos) GTEST_SKIP() << "this build has no MPI";
    if (run_program("/usr/bin/env", {"mpirun", "--version"}).status != 0) GTEST_SKIP() << "mpirun is not installed";
  }
  // As root, with more ranks than cores, leaving a core to the others.
  static Words words(const Words& command, int ranks = 2) {
    return Words{"mpirun", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", cat(ranks), program_file} +
           command;
  }
  static Program::Setting setting() {
    Program::Setting setting;
    setting.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
    return setting;
  }
};

TEST_F(Mpirun, GivesOneRanksFrames) {
  const std::string one = hash_of({});
  const Ran ran = run_program("/usr/bin/env", words(small({}), 4), setting());
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(read_json(report).at("output").at("sha256_frames"), one);
  EXPECT_EQ(read_json(report).at("ranks"), 4);
}

TEST_F(Mpirun, EndsTheJobWhenAProcessIsKilled) {
  Program program("/usr/bin/env", words(longer((folder / "x.mp4").string())), setting());
  ASSERT_TRUE(program.wait_for("denoise 2/500"));
  const pid_t victim = rank_process(program.pid(), 1, "OMPI_COMM_WORLD_RANK");
  const auto ranks = children_of(program.pid());
  ASSERT_GT(victim, 0);
  const Stopwatch watch;
  ::kill(victim, SIGKILL);
  EXPECT_NE(program.wait().status, 0);
  EXPECT_LT(watch.seconds(), soon);
  for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank));
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(Mpirun, EndsTheJobWhenAProcessCannotStart) {
  const Words with = words(small(), 1), without = {":", "-n", "1", program_file};
  const Stopwatch watch;
  const Ran ran = run_program("/usr/bin/env", with + without + generate((folder / "no").string(), video), setting());
  EXPECT_NE(ran.status, 0);
  EXPECT_NE(ran.err.find("zoetrope: rank 1: " + (folder / "no").string()), std::string::npos) << ran.err;
  EXPECT_LT(watch.seconds(), soon);
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(Mpirun, EndsTheJobWhenItIsInterrupted) {
  Program program("/usr/bin/env", words(longer((folder / "x.mp4").string())), setting());
  ASSERT_TRUE(program.wait_for("denoise 2/500"));
  const auto ranks = children_of(program.pid());
  program.signal(SIGINT);
  EXPECT_NE(program.wait().status, 0);  // mpirun has a status of its own
  for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank));
  EXPECT_EQ(folder.count(), 0u);
}

}  // namespace
}  // namespace zoetrope
