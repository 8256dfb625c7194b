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
const Kind kinds[] = {{1, 1, {1, 1, 1, 1}}, {2, 1, {0, 1, 0, 1, 2}}, {2, 2, {1, 1, 1, 1}}};

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

// x enlarged, each pixel four times.
Tensor enlarged(Ctx& c, const Tensor& x) {
  const int64_t h = x.dim(1), w = x.dim(2), channels = x.dim(3);
  const Tensor y = c.empty({1, 2 * h, 2 * w, channels}, x.dtype());
  for (int64_t i = 0; i < 4; ++i)  // row i / 2, column i % 2 of each four
    for (int64_t r = 0; r < h; ++r)
      copy_heads(c, {x, r * w * channels, channels, w, 1, channels},
                 {y, ((2 * r + i / 2) * 2 * w + i % 2) * channels, 2 * channels, w, 1, channels});
  return y;
}

// A frame twice as large by its corners, of a slab or whole.
Tensor by_corners(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, DType type, const Slab& slab,
                  const Slab& fine, const Shape& whole) {
  const Tensor twice = c.empty({2 * b.dim(0)}, b.dtype()), y = c.empty(fine.part(whole), type);
  for (int64_t i = 0; i < 2; ++i) copy(c, b, twice.rows(i * b.dim(0), (i + 1) * b.dim(0)));
  slab.enlarge(c, slab.surround(c, x, Slab::around), corner_weights(c, w, type, c.request()), twice, fine, y);
  return y;
}

double worst_of(const Tensor& got, const Tensor& want) {
  const std::vector<float> a = values_of(got), b = values_of(want);
  double worst = 0, most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(double{a[i]} - double{b[i]})), most = std::max(most, std::abs(double{b[i]}));
  return worst / most;
}

double distance(const std::vector<float>& got, const std::vector<float>& want) {
  double off = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i)
    off += std::pow(double{got[i]} - double{want[i]}, 2), size += std::pow(double{want[i]}, 2);
  return std::sqrt(off / size);
}

TEST(Slab, EnlargesByCornersAsAConvolutionOfTheEnlargedFrame) {
  CpuCtx cpu;
  for (const auto& [h, w] : {std::pair<int64_t, int64_t>{1, 1}, {1, 4}, {5, 1}, {6, 7}}) {
    const Tensor x = filled(cpu.c, {1, h, w, 24}, 1, DType::f32), k = filled(cpu.c, {16, 1, 3, 3, 24}, 2, DType::f32),
                 b = filled(cpu.c, {16}, 3, DType::f32);
    const Tensor want = conv(cpu.c, enlarged(cpu.c, x), k, b, {1, 1, 1, 1}, {});
    EXPECT_LE(worst_of(by_corners(cpu.c, x, k, b, DType::f32, {}, {}, want.shape()), want), 2e-6) << h << ' ' << w;
  }
}

// Weights of fp32 are rounded once, in sums: not worse than each by itself, where weights are distributed like a bell,
// as trained ones are.
TEST(Slab, EnlargesByCornersInBf16NoWorseThanAConvolutionOfTheEnlargedFrame) {
  CpuCtx cpu;
  Ctx& c = cpu.c;
  const Tensor x = cast(c, filled(c, {1, 12, 16, 96}, 1, DType::bf16), DType::f32),
               k = filled(c, {48, 1, 3, 3, 96}, 2, DType::f32), b = filled(c, {48}, 3, DType::f32);
  for (const unsigned seed : {4u, 5u, 6u}) add(c, k, filled(c, k.shape(), seed, DType::f32));
  const ConvOptions same{1, 1, 1, 1};
  const std::vector<float> want = values_of(conv(c, enlarged(c, x), k, b, same, {}));
  const Tensor half = cast(c, x, DType::bf16);
  const Tensor plain = conv(c, enlarged(c, half), cast(c, k, DType::bf16), b, same, {}),
               corners = by_corners(c, half, k, b, DType::bf16, {}, {}, plain.shape());
  const double before = distance(values_of(plain), want), now = distance(values_of(corners), want);
  EXPECT_GT(now, 1e-4);
  EXPECT_LE(now, 1.02 * before);
}

TEST_P(SlabOnRanks, EnlargedPartsHaveTheBitsOfWholeFrames) {
  Ranks(GetParam()).run([&](Ctx& c, Comm& world) {
    for (const DType type : {DType::f32, DType::bf16})
      for (const VaeSplit split : {VaeSplit::height, VaeSplit::width}) {
        const Scope scope(c.scratch()), request(c.request()), exchange(c.exchange());
        poison(c.scratch(), 1u << 18), poison(c.exchange(), 1u << 18);
        const Tensor x = filled(c, {1, 6, 5, 8}, 1, type), w = filled(c, {12, 1, 3, 3, 8}, 2, DType::f32),
                     b = filled(c, {12}, 3, type);
        const Shape frame{1, 12, 10, 12};
        const Tensor whole = by_corners(c, x, w, b, type, {}, {}, frame);
        Slot sent(c.exchange());
        Slab slab(world, split, split == VaeSplit::height ? 6 : 5);
        slab.reserve(sent, 3 * 12 * 8 * 4, 0);
        expect_same_bits(by_corners(c, slab.part(c, x), w, b, type, slab, slab.finer(), frame),
                         slab.finer().part(c, whole));
      }
  });
}

// Lines 4 and 5 of 10 with a margin of 3; the convolution leaves some of it, from an even or an odd line on.
TEST(Slab, CutsAMarginDownWhereTheNextOneIsNarrower) {
  Ranks(5).run([&](Ctx& c, Comm& world) {
    const Tensor x = filled(c, {1, 10, 3, 8}, 1, DType::f32), w = filled(c, {8, 1, 3, 3, 8}, 2, DType::f32),
                 b = filled(c, {8}, 3, DType::f32);
    const Tensor whole = by_corners(c, x, w, b, DType::f32, {}, {}, {1, 20, 6, 8});
    for (const int64_t left : {0, 1, 2, 5}) {
      const Slab slab(world, VaeSplit::height, 10, {3, left}), fine = slab.finer();
      const Tensor part = slab.part(c, x), y = by_corners(c, part, w, b, DType::f32, slab, fine, whole.shape());
      if (world.rank() == 2) {
        EXPECT_EQ(part.shape(), Shape({1, 8, 3, 8}));
        EXPECT_EQ(y.shape(), Shape({1, 4 + 2 * left, 6, 8}));
      }
      expect_same_bits(y, fine.part(c, whole));
    }
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
