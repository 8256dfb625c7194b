// Convolutions and gathers of frames that are cut over rank threads, against those of whole frames.
#include "nn/slab.h"

#include "nn/causal_conv.h"
#include "support/cpu_ctx.h"
#include "support/ranks.h"
#include "support/words.h"

namespace zoetrope::nn {
namespace {

struct Kind {
  int64_t from, to;  // resolutions of input and output
  ConvOptions options;
};
const Kind kinds[] = {
    {1, 1, {1, 1, 1, 1}}, {1, 2, {1, 1, 1, 1, 1, true}}, {2, 1, {0, 1, 0, 1, 2}}, {2, 2, {1, 1, 1, 1}}};

Tensor filled(Ctx& c, const Shape& shape, unsigned seed, DType type) {
  const Tensor x = c.empty(shape, DType::f32, c.request());
  c.upload(random_values(x.size(), seed).data(), x);
  return cast(c, x, type);
}

struct SlabOnRanks : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SlabOnRanks, testing::Values(2, 3, 5, 8));

// Also those that encoders have: half the resolution, lines of the next rank alone.
TEST_P(SlabOnRanks, ConvolutionsGiveTheBitsOfWholeFrames) {
  Ranks(GetParam()).run([&](Ctx& c, Comm& world) {
    for (const DType type : {DType::f32, DType::bf16})
      for (const Kind& kind : kinds)
        for (const VaeSplit split : {VaeSplit::height, VaeSplit::width}) {
          const Scope scope(c.scratch()), request(c.request()), exchange(c.exchange());
          poison(c.scratch(), 1u << 18), poison(c.exchange(), 1u << 18);
          const Tensor x = filled(c, {3, 6 * kind.from, 5 * kind.from, 8}, 1, type),
                       w = filled(c, {12, 1, 3, 3, 8}, 2, type), b = filled(c, {12}, 3, type);
          const Tensor whole = conv(c, x, w, b, kind.options, {});
          Slot sent(c.exchange()), slot(c.exchange());
          Slab slab(world, split, split == VaeSplit::height ? 6 : 5);
          slab.reserve(sent, 3 * 12 * 8 * 4, 0);
          const Slab from = slab.share(kind.from), to = slab.share(kind.to);
          const Tensor near = from.surround(c, from.part(c, x), kind.options);
          const Tensor part = c.empty(to.part(whole.shape()), type);
          from.conv(c, near, w, b, kind.options, {}, to, part);
          expect_same_bits(part, to.part(c, whole));
          expect_same_bits(near, from.part(c, x, kind.options));  // the same lines, cut out of whole frames
          slot.reserve(to.gather_bytes(part.shape(), type));
          const Tensor frames = to.gather(c, part, slot);
          EXPECT_EQ(frames.defined(), world.rank() == 0);
          if (frames.defined()) expect_same_bits(frames, whole);
        }
  });
}

TEST_P(SlabOnRanks, EveryRankGathersTheWholeFrameInItsOrder) {
  Ranks(GetParam()).run([&](Ctx& c, Comm& world) {
    for (const VaeSplit split : {VaeSplit::height, VaeSplit::width}) {
      const Scope scope(c.scratch()), request(c.request()), exchange(c.exchange());
      const Tensor x = filled(c, {1, 7, 6, 24}, 4, DType::f32);
      Slot sent(c.exchange());
      Slab slab(world, split, split == VaeSplit::height ? 7 : 6);
      slab.reserve(sent, 0, 7 * 16 * 4);
      const Tensor part = slab.part(c, x);  // channels 8 .. 23 of it
      const Heads some = as_heads(part.view({part.size() / 24, 24}), 8, 2, 8);
      const Tensor all = slab.all_gather(c, some, part.shape().with(3, 16));
      const Tensor want = c.empty({42, 16}, DType::f32);
      copy_heads(c, as_heads(x.view({42, 24}), 8, 2, 8), as_heads(want, 8));
      expect_same_bits(all, want);
    }
  });
}

// Lines 4 and 5 of 10 with a margin of 3; the convolution leaves 1 of it.
TEST(Slab, CutsAMarginDownWhereTheNextOneIsNarrower) {
  Ranks(5).run([&](Ctx& c, Comm& world) {
    const Tensor x = filled(c, {1, 10, 3, 8}, 1, DType::f32), w = filled(c, {8, 1, 3, 3, 8}, 2, DType::f32);
    const ConvOptions grow{1, 1, 1, 1, 1, true};
    const Slab slab(world, VaeSplit::height, 10, {3, 1}), fine = slab.finer();
    const Tensor part = slab.part(c, x), y = c.empty(fine.part({1, 20, 6, 8}), DType::f32);
    slab.conv(c, slab.surround(c, part, grow), w, {}, grow, {}, fine, y);
    if (world.rank() == 2) {
      EXPECT_EQ(part.shape(), Shape({1, 8, 3, 8}));
      EXPECT_EQ(y.shape(), Shape({1, 6, 6, 8}));
    }
    expect_same_bits(y, fine.part(c, conv(c, x, w, {}, grow, {})));
  });
}

TEST(Slab, OneRankHasWholeFramesAndCopiesNothing) {
  CpuCtx cpu;
  const Slab slab;
  const Tensor x = cpu.random({1, 4, 4, 2}, 1);
  EXPECT_EQ(slab.part(cpu, x).raw(), x.raw());
  EXPECT_EQ(slab.surround(cpu, x, {1, 1, 1, 1}).raw(), x.raw());
  EXPECT_EQ(slab.surrounded(x.shape(), {1, 1, 1, 1}), x.shape());
  Slot slot;
  EXPECT_EQ(slab.gather(cpu, x, slot).raw(), x.raw());
}

TEST(Slab, RefusesWhatIsNotItsPart) {
  EXPECT_EQ(words([] {
              Ranks(2).run([](Ctx& c, Comm& world) {
                Slot slot(c.exchange());
                Slab(world, VaeSplit::width, 6).gather(c, filled(c, {1, 2, 4, 3}, 1, DType::f32), slot);
              });
            }).substr(8),
            "slab: [1, 2, 4, 3] is not a part of 3 lines");
}

}  // namespace
}  // namespace zoetrope::nn
