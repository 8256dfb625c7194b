#include "config/settings.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "config/fields.h"
#include "config/resources.h"
#include "support/words.h"

namespace zoetrope {
namespace {

Settings parsed(const char* text) { return parse_settings(parse_yaml(text, "c.yml"), "c.yml"); }
std::string refused(const char* text) {
  return words([&] { parsed(text); });
}

TEST(Settings, LoadThePublishedRecipes) {
  for (const auto& [model, frames] : {std::pair{"wan22", 80}, {"cosmos3", 189}}) {
    const std::string name = cat(model, "_t2v_bf16_gb200_nvl72.yml");
    const Settings s = parse_settings(parse_yaml(resource(name), name), name);
    EXPECT_EQ(s.world(), 72);
    EXPECT_EQ(s.attention_backend, "FA4");
    EXPECT_EQ(s.attn2d_size, (std::array{3, 3}));
    EXPECT_EQ(s.parallel_vae_size, 8);
    EXPECT_EQ(s.resolutions, (std::vector<Resolution>{{720, 1280}}));
    EXPECT_EQ(s.num_frames, std::vector<int>{frames});
  }
}

TEST(Settings, ShipOneFileANumberOfGpus) {
  for (const int gpus : {1, 2, 4, 8}) {
    const std::string name = cat("wan22_t2v_", gpus, "gpu.yml");
    EXPECT_EQ(parse_settings(parse_yaml(resource(name), name), name).world(), gpus);
  }
}

TEST(Settings, HaveDefaultsForAnEmptyFile) { EXPECT_EQ(parsed("").world(), 1); }

TEST(Settings, SayHowSegmentsAreRecorded) {
  EXPECT_TRUE(parsed("").cuda_graph);
  EXPECT_TRUE(parsed("cuda_graph_config: {enable: true, scope: segment}").cuda_graph);
  EXPECT_FALSE(parsed("cuda_graph_config: {enable: false}").cuda_graph);
  EXPECT_EQ(refused("cuda_graph_config: {scope: step}"),
            "cuda_graph_config.scope: step: a recording of a whole step is not built, since the host looks at each "
            "step's end for progress, cancelling and values that are not finite; segment records the parts of one");
  EXPECT_EQ(refused("cuda_graph_config: {scope: all}"), "cuda_graph_config.scope: \"all\" is not one of segment|step");
  EXPECT_EQ(refused("cuda_graph_config: {enable: 1}"), "cuda_graph_config.enable: 1 is not true or false");
}

TEST(Settings, RefuseByTheirWords) {
  EXPECT_EQ(refused("parallel_config: {cfg: 2}"),
            "c.yml: key \"parallel_config.cfg\" is not known; the nearest known one is \"parallel_config.cfg_size\"");
  EXPECT_EQ(refused("paralel_config: {cfg_size: 2}"),
            "c.yml: key \"paralel_config\" is not known; the nearest known one is \"parallel_config\"");
  EXPECT_EQ(refused("parallel_config: {cfg_size: 0}"), "parallel_config.cfg_size: 0 is outside 1 to 1024");
  EXPECT_EQ(refused("parallel_config: {cfg_size: two}"), "parallel_config.cfg_size: \"two\" is not a whole number");
  EXPECT_EQ(refused("parallel_config: {attn2d_size: [3]}"), "parallel_config.attn2d_size: [3] is not [rows, columns]");
  EXPECT_EQ(refused("attention_config: {backend: FA5}"),
            "attention_config.backend: \"FA5\" is not one of AUTO|CUDNN|FA4|VANILLA");
  EXPECT_EQ(refused("parallel_config: 3"), "c.yml: parallel_config is not a table");
  EXPECT_EQ(refused("quant_config: {algo: fp8}"), "quant_config: not built in this version; leave it out");
  EXPECT_EQ(refused("- 1"), "c.yml: not a table of settings, as `parallel_config: {cfg_size: 2}` is one");
  EXPECT_EQ(refused("<<: {}"), "c.yml: key \"<<\" is not known; docs/settings.md has them all");
  EXPECT_EQ(refused("parallel_config: {cfg_size: 1024, tp_size: 1024, ulysses_size: 1024, ring_size: 1024}"),
            "parallel_config: its sizes multiply to 1099511627776 ranks; at most 1024 make sense");
}

// The pages are printed from the tables; `test_config --gtest_filter=Docs.*` shows what to put there when they differ.
TEST(Docs, HoldTheTablesAsTheyAre) {
  const auto page = [](const char* name) {
    return read_file(std::string(ZOETROPE_SOURCE_DIR "/docs/") + name, 1u << 20);
  };
  EXPECT_NE(page("request-fields.md").find(fields_as_markdown()), std::string::npos) << fields_as_markdown();
  EXPECT_NE(page("settings.md").find(settings_as_markdown()), std::string::npos) << settings_as_markdown();
}

}  // namespace
}  // namespace zoetrope
