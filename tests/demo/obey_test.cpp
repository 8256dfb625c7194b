// Does the demo model obey? 60 prompts whose combinations training never showed (tools/train_demo), judged from the
// pixels of our own engine's videos at the default steps.
#include <gtest/gtest.h>

#include <cstdio>

#include "demo/shapes.h"

namespace zoetrope::demo {
namespace {

Json prompts() { return read_json(ZOETROPE_SOURCE_DIR "/tools/train_demo/evaluation_prompts.json"); }

struct Score {
  int count = 0, colour = 0, direction = 0, size = 0;
  double percent(int n) const { return 100.0 * n / count; }
};

Score score(const std::vector<int>& ids, const std::string& preset) {
  const Json all = prompts();
  Engine engine(shapes_config());
  Score score;
  for (const int id : ids) {
    const Json& p = all.at(static_cast<size_t>(id));
    Ask ask = shapes_ask(p.at("prompt"), p.at("seed"));
    ask.preset = preset;
    const auto found = measure(make(engine, ask).video);
    const Obeyed ok = judge(found, p.at("objects"));
    ++score.count, score.colour += ok.colour, score.direction += ok.direction, score.size += ok.size;
    std::printf("%2d %s %s %s  %s\n", id, ok.colour ? "colour" : "------", ok.direction ? "direction" : "---------",
                ok.size ? "size" : "----", p.at("prompt").get<std::string>().c_str());
  }
  std::printf("%d prompts: colour %.1f %%, direction %.1f %%, size class %.1f %%\n", score.count,
              score.percent(score.colour), score.percent(score.direction), score.percent(score.size));
  return score;
}

TEST(Obey, OneObjectEachWay) {
  const Score four = score({1, 2, 8, 10}, "draft");  // right, up, down, left
  EXPECT_EQ(four.colour, 4);
  EXPECT_EQ(four.direction, 4);
}

TEST(Obey, TwoObjectsEachItsOwnWay) {
  const Score two = score({4, 9}, "draft");
  EXPECT_EQ(two.colour, 2);
  EXPECT_EQ(two.direction, 2);
}

// docs/demo-model.md holds what it printed last.
TEST(ObeySweep, SixtyPromptsNeverShown) {
  std::vector<int> ids(prompts().size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
  const Score all = score(ids, "standard");
  EXPECT_EQ(all.count, 60);
  EXPECT_GE(all.percent(all.colour), 90);
  EXPECT_GE(all.percent(all.direction), 85);
}

}  // namespace
}  // namespace zoetrope::demo
