// `zoetrope parity`: what it prints and writes, and that a miss is a status.
#include "base/json.h"
#include "cli/command.h"

namespace zoetrope {
namespace {

struct ParityCommand : Refused {
  Words command(const Words& more) const {
    return Words{"parity",  "--model", toy("wan-a14b").string(), "--size", "48x48", "--num-frames", "5",
                 "--steps", "2"} +
           more;
  }
  std::string config(const std::string& mesh) {
    return folder.put("mesh.yml", cat("parallel_config: {", mesh, "}\n")).string();
  }
  Json rows(const Words& more, int status = 0) {
    const std::string file = (folder / "p.json").string();
    const Ran ran = zoetrope(command(more) + Words{"--json", file});
    EXPECT_EQ(ran.status, status) << ran.err;
    const Json all = read_json(file);
    EXPECT_EQ(all.at("published_bound"), Json({{"atol", 1e-2}, {"rtol", 1e-3}}));
    return all.at("rows");
  }
};

TEST_F(ParityCommand, SaysHowFarAMeshIsFromOneRankAndWhatItMayBe) {
  const Json row = rows({"--config", config("cfg_size: 2, ring_size: 2")})[0];
  EXPECT_EQ(row.at("mesh"), "cfg 2 x ring 2");
  EXPECT_EQ(row.at("failure"), "");
  EXPECT_EQ(row.at("forward").at("bound"), 1e-5);
  EXPECT_EQ(row.at("latents").at("bound"), 1e-4);
  EXPECT_EQ(row.at("frames").at("bound"), 60);
  for (const char* what : {"forward", "latents"}) {
    EXPECT_LE(row.at(what).at("max_abs").get<double>(), 1e-4);
    EXPECT_LE(row.at(what).at("rel_l2").get<double>(), 1e-4);
    EXPECT_EQ(row.at(what).at("outside_published"), 0);
  }
  EXPECT_TRUE(row.at("frames").contains("worst_psnr"));
  // 3 layers, one exchange each of two ranks' blocks; the velocity's tokens; the two predictions.
  EXPECT_EQ(row.at("collectives").at("ring").at("exchange").at("count"), 3);
  EXPECT_EQ(row.at("collectives").at("sequence").at("all_gather").at("count"), 1);
  EXPECT_EQ(row.at("collectives").at("cfg").at("all_gather").at("count"), 1);
}

TEST_F(ParityCommand, SweepsAllMeshesOfSoManyRanks) {
  const Json all = rows({"--sweep", "2"});
  std::vector<std::string> meshes;
  for (const Json& row : all) {
    meshes.push_back(row.at("mesh"));
    EXPECT_EQ(row.at("failure"), "");
    EXPECT_EQ(row.at("exact").get<bool>(), row.at("frames").at("bound") == "same pixels");
    if (row.at("exact")) {
      EXPECT_EQ(row.at("forward").at("bound"), 0);
      EXPECT_TRUE(row.at("forward").at("same_bits"));
      EXPECT_EQ(row.at("frames").at("worst_psnr"), "same pixels");
    }
  }
  EXPECT_EQ(meshes, (Words{"cfg 2", "cfg 1 x ulysses 2, separate", "cfg 1 x ulysses 2, kv packed",
                           "cfg 1 x ulysses 2, packed", "cfg 1 x tp 2", "cfg 1 x ring 2", "cfg 1 x attn2d 1x2",
                           "cfg 1 x attn2d 1x2, pipelined", "cfg 1 x attn2d 2x1", "cfg 1 x attn2d 2x1, pipelined"}));
}

// A guidance of 100 takes the reference out of the range in which a bound means anything.
TEST_F(ParityCommand, EndsWithStatus1OnAMiss) {
  const Json row = rows({"--config", config("cfg_size: 2"), "--guidance-scale", "100"}, 1)[0];
  EXPECT_NE(row.at("failure").get<std::string>().find("proves nothing"), std::string::npos) << row;
}

TEST_F(ParityCommand, StopsWhenAsked) {
  Program program(program_file, command({"--sweep", "8", "--json", (folder / "p.json").string()}));
  ASSERT_TRUE(program.wait_for("cfg 2 x ulysses 4, separate", "out"));
  program.signal(SIGTERM);
  const Ran ran = program.wait();
  EXPECT_EQ(ran.status, 130);
  EXPECT_EQ(ran.err, "zoetrope: cancelled\n");
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(ParityCommand, RefusesAFileThatCannotBeWrittenBeforeAnythingIsCompared) {
  const std::string file = (folder / "none/p.json").string();
  expect(command({"--sweep", "2", "--json", file}), cat(file, ": cannot be written: No such file or directory"));
}

TEST_F(ParityCommand, RefusesWhatIsNoMesh) {
  expect(command({}), "parity: give either --config FILE or --sweep N");
  expect(command({"--sweep", "2", "--device", "tpu"}), "device \"tpu\" is not known; use cpu or cuda");
  expect(command({"--sweep", "2147483647"}), "ranks: 2147483647 asked for, at most 1024 make sense");
  expect(command({"--sweep", "-2"}), "sweep: -2 asked for; a number of ranks is needed");
  expect_refusal(
      zoetrope(command({"--config", config("ulysses_size: 6")})),
      "ulysses 6 is more than the 4 heads; layouts for 6: cfg 2 x ulysses 3, cfg 2 x ring 3, "
      "cfg 2 x attn2d 1x3, cfg 2 x attn2d 3x1, cfg 1 x ring 2 x ulysses 3, cfg 1 x attn2d 1x2 x ulysses 3, ...");
}

}  // namespace
}  // namespace zoetrope
