#include "nn/random.h"

#include <gtest/gtest.h>

#include "support/words.h"

namespace zoetrope::nn {
namespace {

std::vector<float> read(uint64_t seed, const std::string& key, const Shape& shape, const Slice& part = {}) {
  std::vector<float> values(static_cast<size_t>(part.of(shape).size()));
  Random(seed).read(key, shape, part, {values.data(), part.of(shape), DType::f32});
  return values;
}

// Computed with numpy from the rule in random.h.
TEST(Random, FollowsTheRuleBitForBit) {
  const auto matrix = read(7, "proj_out.weight", {4, 32});
  EXPECT_EQ(matrix[0], -0x1.2cedf0p-2f);
  EXPECT_EQ(matrix[1], -0x1.572a7ep-5f);
  EXPECT_EQ(matrix[63], 0x1.7bd44ap-3f);
  const auto gamma = read((uint64_t{1} << 63) + 5, "decoder.norm_out.gamma", {8, 1, 1, 1});
  EXPECT_EQ(gamma[0], 0x1.eb983cp-1f);
  EXPECT_EQ(gamma[1], 0x1.d8c478p-1f);
  const auto table = read(0, "shared.weight", {100, 16});
  EXPECT_EQ(table[0], 0x1.4911dcp+0f);
  EXPECT_EQ(table[1000], -0x1.2f0350p+0f);
}

TEST(Random, SpreadDependsOnTheKey) {
  const auto spread = [](const char* key, const Shape& shape) {
    const Spread s = spread_of(key, shape);
    return std::pair(s.scale, s.offset);
  };
  EXPECT_EQ(spread("blocks.0.norm2.weight", {8}), std::pair(0.2f, 1.0f));
  EXPECT_EQ(spread("decoder.norm_out.gamma", {8, 1, 1, 1}), std::pair(0.2f, 1.0f));
  EXPECT_EQ(spread("blocks.0.norm2.bias", {8}), std::pair(0.1f, 0.0f));
  EXPECT_EQ(spread("blocks.3.scale_shift_table", {1, 6, 8}), std::pair(0.5f, 0.0f));
  EXPECT_EQ(spread("encoder.block.0.layer.0.SelfAttention.q.weight", {8, 12}), std::pair(0.125f, 0.0f));
  EXPECT_EQ(spread("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", {32, 4}),
            std::pair(1.0f, 0.0f));
  EXPECT_EQ(spread("decoder.conv_out.weight", {3, 4, 3, 1, 1}), std::pair(0.25f, 0.0f));
  EXPECT_EQ(spread("decoder.up_blocks.0.resnets.1.conv2.weight", {4, 4, 3, 1, 1}), std::pair(0.75f, 0.0f));
  EXPECT_EQ(spread("decoder.conv_in.weight", {4, 4, 3, 1, 1}), std::pair(0.5f, 0.0f));
}

TEST(Random, ASliceHoldsTheSameValues) {
  const Shape shape{6, 5, 3};
  const auto whole = read(3, "w", shape);
  const auto rows = read(3, "w", shape, {0, 2, 4});
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], whole[2 * 15 + i]);
  const auto columns = read(3, "w", shape, {1, 1, 3});  // [6, 2, 3]
  for (size_t i = 0; i < columns.size(); ++i) EXPECT_EQ(columns[i], whole[i / 6 * 15 + 3 + i % 6]);
}

TEST(Random, ThreadsDoNotMatter) {
  Pool pool(3);
  const Shape shape{500, 400};
  std::vector<bf16> one(200000), many(200000);
  Random(1).read("w", shape, {}, {one.data(), shape, DType::bf16});
  Random(1, &pool).read("w", shape, {}, {many.data(), shape, DType::bf16});
  for (size_t i = 0; i < one.size(); ++i) ASSERT_EQ(one[i].bits, many[i].bits);
}

TEST(Random, RefusesATargetOfAnotherSize) {
  std::vector<float> values(7);
  EXPECT_EQ(words([&] {
              Random(0).read("w", {2, 3}, {}, {values.data(), {7}, DType::f32});
            }),
            "random: w is [2, 3] but the target is [7]");
}

}  // namespace
}  // namespace zoetrope::nn
