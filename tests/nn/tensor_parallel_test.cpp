// Products and norms over ranks that hold parts of them, against one rank.
#include "nn/tensor_parallel.h"

#include "comm/dry/world.h"
#include "core/dry_rank.h"
#include "nn/random.h"
#include "support/ranks.h"
#include "support/words.h"

namespace zoetrope::nn {
namespace {

struct Layer {
  Linear up, down;
  Tensor norm;

  Layer(Ctx& c, const TensorParallel& tp, DType dtype) {
    Random weights(3);
    Loader from(c, "t", weights, dtype);
    load(from, up, "up", 48, 24, Bias::yes, tp.outputs(48, 8));
    from.part(norm, "norm.weight", {48}, tp.outputs(48, 8));
    load(from, down, "down", 24, 48, Bias::yes, tp.inputs(48, 8));
    from.load();
  }

  // Up, norm over all heads, down.
  Tensor operator()(Ctx& c, TensorParallel& tp, const Tensor& x) const {
    tp.reserve(x.size());
    const Heads wide = as_heads(up(c, x), 8);
    tp.norm_rope(c, {{wide, norm, wide}}, 48, 1e-6f, nullptr);
    return tp.sum(c, down, wide.buf);
  }
};

std::vector<float> one_rank(DType dtype) {
  CpuCtx cpu(1);
  TensorParallel tp(cpu.c, nullptr);
  return values_of(Layer(cpu.c, tp, dtype)(cpu.c, tp, cpu.random({7, 24}, 1, dtype)));
}

struct OnRanks : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, OnRanks, testing::Values(1, 2, 3, 4, 6));

TEST_P(OnRanks, PartsSumUpToTheWholeAndAllRanksHaveTheSameBits) {
  const auto ranks = static_cast<size_t>(GetParam());
  const std::vector<float> exactly = one_rank(DType::f32);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::vector<float> x = random_values(7 * 24, 1), one = one_rank(dtype);
    std::vector<std::vector<float>> got(ranks);
    Ranks(GetParam()).run([&](Ctx& c, Comm& world) {
      TensorParallel tp(c, &world);
      const Layer layer(c, tp, dtype);
      const Tensor wide = c.empty({7, 24}, DType::f32, c.request());
      c.upload(std::span<const float>(x), wide);
      got[static_cast<size_t>(world.rank())] =
          values_of(layer(c, tp, dtype == DType::f32 ? wide : cast(c, wide, dtype)));
    });
    for (const auto& values : got) EXPECT_EQ(values, got[0]);
    if (ranks == 1) {
      EXPECT_EQ(got[0], one);
    } else {
      expect_near(got[0], one, dtype == DType::f32 ? 2e-6 : 0x1p-7);
    }
  }
}

TEST(TensorParallel, SharesWholeUnitsAsEvenlyAsTheyGo) {
  DryRank counting;
  const auto shares = [&](int ranks, int64_t n, int64_t unit) {
    std::vector<int64_t> ends;
    for (int r = 0; r < ranks; ++r) {
      DryWorld dry(r, ranks);
      const auto world = dry.comm();
      const TensorParallel tp(counting.c, world.get());
      const Slice rows = tp.outputs(n, unit), columns = tp.inputs(n, unit);
      EXPECT_EQ(rows.axis, 0);
      EXPECT_EQ(columns.axis, 1);
      EXPECT_EQ(rows.from, ends.empty() ? 0 : ends.back());
      EXPECT_EQ(columns.from, rows.from);
      EXPECT_EQ(columns.to, rows.to);
      ends.push_back(rows.to);
    }
    return ends;
  };
  EXPECT_EQ(shares(4, 5120, 128), (std::vector<int64_t>{1280, 2560, 3840, 5120}));
  EXPECT_EQ(shares(5, 13824, 16), (std::vector<int64_t>{2768, 5536, 8304, 11072, 13824}));
  EXPECT_EQ(shares(5, 64, 16), (std::vector<int64_t>{16, 32, 48, 64, 64}));
  EXPECT_EQ(words([&] { shares(5, 63, 16); }), "tp: 63 are no whole units of 16");

  DryWorld dry(0, 5);
  const auto world = dry.comm();
  const TensorParallel tp(counting.c, world.get());
  EXPECT_EQ(tp.unit_of(13824), 16);
  EXPECT_EQ(tp.unit_of(64), 8);  // 16 would leave one of five ranks without any
  EXPECT_EQ(tp.unit_of(7), 1);
}

TEST(TensorParallel, OneRankTakesNoSlotAndSendsNothing) {
  CpuCtx cpu(1);
  TensorParallel tp(cpu.c, nullptr);
  tp.reserve(1 << 20);
  EXPECT_EQ(cpu.c.exchange().used(), 0u);
  EXPECT_EQ(tp.outputs(48, 8).of({48, 24}), Shape({48, 24}));
}

TEST(TensorParallel, RefusesToSumBeforeASlotIsReserved) {
  DryRank counting(device::traits());
  DryWorld dry(0, 2);
  const auto world = dry.comm();
  const TensorParallel tp(counting.c, world.get());
  const Linear part{counting.c.empty({4, 2}, DType::f32), {}};
  EXPECT_EQ(words([&] {
              tp.sum(counting.c, part, counting.c.empty({3, 2}, DType::f32));
            }),
            "exchange: [3, 4] fp32 needs a slot of 48 bytes, 0 were reserved; reserve() comes first");
}

}  // namespace
}  // namespace zoetrope::nn
