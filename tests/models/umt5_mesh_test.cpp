// The text encoder on a tensor-parallel group against one rank.
#include "comm/dry/world.h"
#include "core/dry_rank.h"
#include "models/golden.h"
#include "models/umt5/umt5.h"
#include "nn/random.h"
#include "support/ranks.h"
#include "support/words.h"

namespace zoetrope {
namespace {

const Umt5Config toy{.layers = 2, .heads = 6, .width = 8, .dim = 48, .ffn_dim = 40, .vocabulary = 60};
const std::vector<int32_t> prompt{4, 17, 59, 3, 3, 21, 8, 44, 30, 1};

Tensor encode(Ctx& c, Comm* tp, DType dtype) {
  nn::Random weights(5);
  const Umt5Encoder model(c, toy, weights, dtype, "text_encoder", tp);
  model.forward(c, std::vector<int32_t>(70, 2));  // a longer one first: it makes the slots
  return model.forward(c, prompt);
}

std::vector<float> one_rank(DType dtype) {
  CpuCtx cpu(1);
  return values_of(encode(cpu.c, nullptr, dtype));
}

struct Umt5OnRanks : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Umt5OnRanks,
                         testing::Values(1, 2, 3, 4, 7));  // 6 heads: 2 2 1 1 on four ranks, on seven one has none

TEST_P(Umt5OnRanks, IsThatOfOneRankWithinItsBoundAndTheSameBitsEverywhere) {
  const std::vector<float> exactly = one_rank(DType::f32);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::vector<float> one = one_rank(dtype);
    std::vector<std::vector<float>> got(static_cast<size_t>(GetParam()));
    Ranks(GetParam()).run([&](Ctx& c, Comm& world) {
      poison(c.exchange(), 1u << 20), poison(c.scratch(), 1u << 20);
      got[static_cast<size_t>(world.rank())] = values_of(encode(c, &world, dtype));
    });
    for (const auto& values : got) EXPECT_TRUE(values == got[0]);
    if (GetParam() == 1) {
      EXPECT_TRUE(got[0] == one);
    }
    const bool rounded = dtype == DType::bf16;
    EXPECT_LE(relative_error(got[0], one), rounded ? 0.05 : 1e-5);
    EXPECT_LE(relative_l2(got[0], one), rounded ? 1.5 * relative_l2(one, exactly) : 1e-5);
  }
}

// docs/parallelism.md: two sums of [n, C] a layer.
TEST(Umt5OnAMesh, ReducesTwiceALayer) {
  DryWorld dry(1, 4);
  const auto world = dry.comm();
  DryRank counting(device::traits());
  nn::Random weights(5);
  const Umt5Encoder model(counting.c, toy, weights, DType::bf16, "text_encoder", world.get());
  model.forward(counting.c, prompt);
  EXPECT_EQ(dry.log().size(), 2u * 2u);
  for (const Record& sum : dry.log()) {
    EXPECT_EQ(sum.verb, Verb::all_reduce);
    EXPECT_EQ(sum.shape, Shape({10, 48}));
    EXPECT_EQ(sum.bytes, 2 * 10 * 48 * 4 * 3 / 4);
  }
}

TEST(Umt5OnAMesh, RefusesMoreRanksThanItsFeedForwardIsWide) {
  DryWorld dry(0, 41);
  const auto world = dry.comm();
  DryRank counting;
  nn::Random weights(5);
  EXPECT_EQ(words([&] { Umt5Encoder(counting.c, toy, weights, DType::f32, "text_encoder", world.get()); }),
            "text_encoder: tp 41 is more than the 40 numbers of d_ff");
}

}  // namespace
}  // namespace zoetrope
