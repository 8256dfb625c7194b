// Whole videos of meshes against one rank's: layouts chosen so that every pair of choices meets, and all there are.
#include "eval/parity.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/jobs.h"
#include "eval/pairwise.h"
#include "pipeline/facts.h"

namespace zoetrope {
namespace {

const ModelSource& toy_source() {
  static const ModelSource source = open_model_folder(toy_folder("wan-a14b"));
  return source;
}

Request small_request(int width, int height) {
  Ask ask = small_ask();
  ask.width = width, ask.height = height;
  return resolve(ask, model_info(toy_source()), 0);
}

// One Parity a choice of size and type: the run of one rank is made once.
const Parity& parity_of(bool odd, DType dtype) {
  static std::map<std::pair<bool, DType>, std::unique_ptr<Parity>> made;
  auto& slot = made[{odd, dtype}];
  if (!slot)  // 3x3 or 3x4 tokens a latent frame
    slot = std::make_unique<Parity>(toy_source(), small_request(odd ? 48 : 64, 48), dtype, dtype);
  return *slot;
}

MeshHeads toy_heads() { return mesh_heads(toy_source()); }

void expect_parity(const Choice& choice) {
  const ParityRow row = parity_of(choice.odd, choice.dtype).check(choice.layout);
  EXPECT_EQ(row.failure, "") << choice.text() << ": forward " << row.velocity.relative() << ", latents "
                             << row.latents.relative();
}

// ---- 40 layouts ---------------------------------------------------------------------------------------------------

constexpr size_t layouts = 40;
constexpr int shares = 4;

const std::vector<Choice>& chosen() {
  static const std::vector<Choice> some = pairwise(all_choices(toy_heads()), layouts);
  return some;
}

TEST(Pairwise, LayoutsHaveEveryPairThatALegalLayoutHas) {
  std::set<std::string> covered, ranks, missing;
  for (const Choice& choice : chosen()) {
    for (const std::string& pair : pairs_of(choice)) covered.insert(pair);
    ranks.insert(cat(choice.layout.shape.world()));
  }
  for (const Choice& choice : all_choices(toy_heads()))
    for (const std::string& pair : pairs_of(choice))
      if (!covered.contains(pair)) missing.insert(pair);
  EXPECT_EQ(missing, std::set<std::string>());
  EXPECT_EQ(ranks, (std::set<std::string>{"2", "3", "4", "6", "7", "8"}));
  EXPECT_EQ(chosen().size(), layouts);
}

class PairwiseShare : public testing::TestWithParam<int> {};

TEST_P(PairwiseShare, GivesOneRanksVideo) {
  for (size_t i = static_cast<size_t>(GetParam()); i < layouts; i += shares) expect_parity(chosen()[i]);
}
INSTANTIATE_TEST_SUITE_P(Meshes, PairwiseShare, testing::Range(0, shares));

// ---- all there are ------------------------------------------------------------------------------------------------

class ParitySweep : public testing::TestWithParam<int> {};

TEST_P(ParitySweep, EveryLegalMeshInEachFormGivesOneRanksVideo) {
  for (const Layout& layout : all_layouts(GetParam(), toy_heads()))
    for (const DType dtype : {DType::f32, DType::bf16}) expect_parity({layout, true, dtype});
}
INSTANTIATE_TEST_SUITE_P(Ranks, ParitySweep, testing::Values(1, 2, 3, 4, 6, 7, 8));

// ---- what it must not pass ----------------------------------------------------------------------------------------

TEST(Parity, RefusesAReferenceThatProvesNothing) {
  // The toy's first prediction has a rms near 1; a guidance of 100 takes it out of the range in which a bound means
  // much.
  Request request = small_request(48, 48);
  request.guidance_scale = 100;
  const ParityRow row = Parity(toy_source(), request, DType::f32, DType::f32).check({});
  EXPECT_NE(row.failure.find("proves nothing"), std::string::npos) << row.failure;
}

}  // namespace
}  // namespace zoetrope
