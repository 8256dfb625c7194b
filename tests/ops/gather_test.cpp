#include "ops/ops.h"
#include "support/device_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

constexpr DType types[] = {DType::f32, DType::bf16};

TEST(Gather, EmbeddingLooksRowsUp) {
  DeviceCtx dev;
  for (const DType type : types) {
    const Tensor table = dev.random({9, 11}, 1, type);
    const std::vector<int32_t> ids{8, 0, 3, 3};
    const Tensor y = embedding(dev, table, dev.ints(ids));
    for (size_t s = 0; s < ids.size(); ++s) expect_same_bits(y.row(static_cast<int64_t>(s)), table.row(ids[s]));
  }
}

// Known values: frequencies of 256 columns at 0.999 (Cosmos3's scaled last step), and exact ones at 0.
TEST(Gather, TimestepEmbedIsCosinesThenSines) {
  DeviceCtx dev;
  const std::vector<float> y = values_of(timestep_embed(dev, dev.tensor({3}, std::vector<float>{0, 0.999f, 875}), 256));
  EXPECT_EQ(y[5], 1.0f);
  EXPECT_EQ(y[128 + 5], 0.0f);
  EXPECT_NEAR(y[256 + 0], 0.54114348, 1e-6);
  EXPECT_NEAR(y[256 + 1], 0.59812135, 1e-6);
  EXPECT_NEAR(y[256 + 128], 0.84093028, 1e-6);
  EXPECT_NEAR(y[256 + 129], 0.80140555, 1e-6);
  EXPECT_NEAR(y[256 + 255], 1.0735e-4, 1e-8);
  for (size_t k = 0; k < 128; ++k)  // fp32 angles near 875 are off by up to 6e-5
    EXPECT_NEAR(y[512 + k], std::cos(875 * std::exp(-std::log(10000.0) * static_cast<double>(k) / 128)), 2e-4);
}

TEST(Gather, ValueRangeSkipsAndCountsWhatIsNotFinite) {
  DeviceCtx dev;
  for (const DType type : types) {
    std::vector<float> x = random_values(50000, 1);
    x[7] = NAN, x[40000] = INFINITY, x[41000] = -INFINITY, x[123] = -4, x[49999] = 8;
    EXPECT_EQ(values_of(value_range(dev, dev.tensor({50000}, x, type))), (std::vector<float>{-4, 8, 3}));
  }
  EXPECT_EQ(values_of(value_range(dev, dev.poisoned({2}, DType::f32))), (std::vector<float>{INFINITY, -INFINITY, 2}));
}

TEST(Gather, PatchifyPutsRowsOfAPatchSideBySide) {
  DeviceCtx dev;
  for (const DType type : types)
    for (const DType out : types) {
      const Tensor x = dev.random({2, 4, 6, 3}, 1, type);
      const Tensor y = patchify(dev, x, 2, 3, out);
      ASSERT_EQ(y.shape(), Shape({2 * 2 * 2, 18}));
      const std::vector<float> from = values_of(cast(dev, x, out)), to = values_of(y);
      for (size_t t = 0; t < 2; ++t)
        for (size_t r = 0; r < 4; ++r)
          for (size_t col = 0; col < 6; ++col)
            for (size_t ch = 0; ch < 3; ++ch)
              EXPECT_EQ(to[((t * 2 + r / 2) * 2 + col / 3) * 18 + (r % 2 * 3 + col % 3) * 3 + ch],
                        from[((t * 4 + r) * 6 + col) * 3 + ch]);
      expect_near(unpatchify(dev, y, 2, 4, 6, 2, 3), from, 0);
    }
}

TEST(Gather, InterleaveFramesSplitsChannelsIntoEvenAndOddFrames) {
  DeviceCtx dev;
  for (const DType type : types) {
    const Tensor x = dev.random({3, 2, 2, 10}, 1, type), y = interleave_frames(dev, x);
    ASSERT_EQ(y.shape(), Shape({6, 2, 2, 5}));
    const std::vector<float> from = values_of(x), to = values_of(y);
    for (size_t t = 0; t < 6; ++t)
      for (size_t p = 0; p < 4; ++p)
        for (size_t ch = 0; ch < 5; ++ch)
          EXPECT_EQ(to[(t * 4 + p) * 5 + ch], from[(t / 2 * 4 + p) * 10 + t % 2 * 5 + ch]);
  }
}

TEST(Gather, RefusesWhatDoesNotFit) {
  DeviceCtx dev;
  const Tensor x = dev.random({2, 5, 6, 3}, 1);
  EXPECT_EQ(words([&] { embedding(dev, dev.random({9, 4}, 1), dev.random({3}, 1)); }), "embedding: ids are [3] fp32");
  EXPECT_EQ(words([&] { timestep_embed(dev, dev.random({1}, 1), 7); }), "timestep_embed: width 7 is not even");
  EXPECT_EQ(words([&] { patchify(dev, x, 2, 2, DType::f32); }), "patchify: [2, 5, 6, 3] in patches of 2x2");
  EXPECT_EQ(words([&] {
              unpatchify(dev, dev.random({7, 12}, 1), 2, 4, 4, 2, 2);
            }),
            "unpatchify: [7, 12] to 2x4x4 in patches of 2x2");
  EXPECT_EQ(words([&] { interleave_frames(dev, x); }), "interleave_frames: x is [2, 5, 6, 3]");
}

}  // namespace
}  // namespace zoetrope
