// `zoetrope inspect --cost` on meshes: the shipped configurations, and what is refused.
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"

namespace zoetrope {
namespace {

const std::string configs = ZOETROPE_SOURCE_DIR "/configs/";

Words cost(const std::string& model, const Words& more) { return Words{"inspect", model, "--cost"} + more; }

// The lines that a page shows below the command; "..." stands for some that it leaves out.
std::vector<std::string> shown_in(const std::string& page) {
  std::istringstream text(read_file(ZOETROPE_SOURCE_DIR "/" + page, 1 << 20));
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(text, line) && !line.starts_with("$ zoetrope inspect wan2.2-t2v-a14b --cost")) {
  }
  while (std::getline(text, line) && line != "```")
    if (line != "...") lines.push_back(line + "\n");
  return lines;
}

// Size and length are those of the configuration.
TEST(MeshCostCommand, PrintsWhatTheDocumentsShow) {
  const Ran ran = zoetrope(cost(
      "wan2.2-t2v-a14b", {"--config", configs + "wan22_t2v_bf16_gb200_nvl72.yml", "--ranks", "72", "--dtype", "bf16"}));
  for (const char* page : {"README.md", "docs/parallelism.md"}) {
    const auto lines = shown_in(page);
    EXPECT_GT(lines.size(), 6u) << page;
    for (const std::string& line : lines)
      EXPECT_NE(ran.out.find("\n" + line), std::string::npos) << page << " has: " << line << "the program: " << ran.out;
  }
}

TEST(MeshCostCommand, LaysRanksOutByTheRuleWithoutAConfiguration) {
  const Ran ran = zoetrope(
      cost("wan2.1-t2v-1.3b", {"--ranks", "6", "--size", "832x480", "--num-frames", "17", "--steps", "2", "--json"}));
  EXPECT_EQ(ran.status, 0) << ran.err;
  const Json facts = parse_json(ran.out, "inspect").at("cost");
  EXPECT_EQ(facts.at("mesh"), "cfg 2 x ulysses 3, separate");
  EXPECT_EQ(facts.at("world"), 6);
  EXPECT_EQ(facts.at("tokens"), 5 * 30 * 52);
  EXPECT_EQ(facts.at("dtype"), "fp32");
  EXPECT_EQ(facts.at("ranks")[0].at("forward").at("ulysses").at("all_to_all").at("count"), 4 * 30);
  EXPECT_EQ(facts.at("ranks")[0].at("whole").at("cfg").at("all_gather").at("count"), 2);
}

TEST(MeshCostCommand, RefusesIllegalWorldsAndListsLegalOnes) {
  TempFolder folder;
  const auto config = [&](const std::string& text) { return folder.put("mesh.yml", text + "\n").string(); };
  const std::string published = configs + "wan22_t2v_bf16_gb200_nvl72.yml";
  expect_refusal(zoetrope(cost("wan2.2-t2v-a14b", {"--config", published, "--ranks", "6"})),
                 "cfg 2 x attn2d 3x3 x ulysses 4 = 72 ranks, but 6 were started; layouts for 6: cfg 2 x ulysses 3, "
                 "cfg 1 x ulysses 6, cfg 1 x tp 2 x ulysses 3, cfg 2 x ring 3, cfg 2 x attn2d 1x3, cfg 2 x attn2d "
                 "3x1, ...");
  expect_refusal(zoetrope(cost("wan2.1-t2v-1.3b", {"--config", config("parallel_config: {ulysses_size: 13}")})),
                 "ulysses 13 is more than the 12 heads; layouts for 13: cfg 1 x ring 13, cfg 1 x attn2d 1x13, cfg 1 x "
                 "attn2d 13x1");
  expect_refusal(zoetrope(cost("wan2.1-t2v-1.3b", {"--ranks", "0"})), "ranks: 0 asked for, at least 1 is needed");
  expect_refusal(zoetrope(cost("wan2.1-t2v-1.3b", {"--ranks", "2147483647"})),
                 "ranks: 2147483647 asked for, at most 1024 make sense");
  expect_refusal(zoetrope({"inspect", "wan2.1-t2v-1.3b", "--ranks", "2"}),
                 "inspect: --ranks and --config go with --cost");
  expect_refusal(zoetrope(cost("wan2.1-t2v-1.3b",
                               {"--config", config("compilation_config: {resolutions: [[480, 832], [720, 1280]]}")})),
                 "cost: compilation_config.resolutions has 2 sizes; choose one with --size");
}

TEST(MeshCostCommand, SaysWhichModelIsNotBuilt) {
  expect_refusal(zoetrope(cost("cosmos3-super", {"--config", configs + "cosmos3_t2v_bf16_gb200_nvl72.yml"})),
                 "cosmos3-super: Cosmos3 is not built in this version; built are wan2.1-t2v-1.3b, wan2.1-t2v-14b, "
                 "wan2.2-t2v-a14b");
}

}  // namespace
}  // namespace zoetrope
