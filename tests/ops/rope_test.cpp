#include "ops/ops.h"
#include "support/cpu_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

constexpr DType types[] = {DType::f32, DType::bf16};

// A [2, 3, 4] grid of tokens; 2 + 1 + 1 pairs, so heads are 8 wide.
Rope grid(CpuCtx& cpu, RopeStyle style, int64_t offset = 0) {
  return {{cpu.random({2, 2, 2}, 1), cpu.random({3, 1, 2}, 2), cpu.random({4, 1, 2}, 3)}, style, offset};
}

std::vector<double> rotated(std::vector<double> x, const Rope& rope, int64_t tokens, int64_t heads) {
  const int64_t width = 8, half = 4;
  for (int64_t s = 0; s < tokens && rope.offset + s < 24; ++s)
    for (int64_t n = 0; n < heads; ++n)
      for (int64_t p = 0; p < half; ++p) {
        const int64_t place = rope.offset + s, at[] = {place / 12, place / 4 % 3, place % 4};
        const int axis = p < 2 ? 0 : p == 2 ? 1 : 2;
        const float* cell = rope.axis[axis].row(at[axis]).data<float>() + (axis == 0 ? 2 * p : 0);
        const bool adjacent = rope.style == RopeStyle::adjacent;
        const auto head = static_cast<size_t>((s * heads + n) * width);
        double& a = x[head + static_cast<size_t>(adjacent ? 2 * p : p)];
        double& b = x[head + static_cast<size_t>(adjacent ? 2 * p + 1 : p + half)];
        const double c = double{cell[0]}, i = double{cell[1]}, first = a * c - b * i, second = a * i + b * c;
        a = first, b = second;
      }
  return x;
}

std::vector<double> wide(const Tensor& x) {
  const std::vector<float> values = values_of(x);
  return {values.begin(), values.end()};
}

TEST(Rope, TurnsEachPairByTheAnglesOfItsPlaceInTheGrid) {
  CpuCtx cpu;
  for (const DType type : types)
    for (const RopeStyle style : {RopeStyle::adjacent, RopeStyle::halves})
      for (const int64_t offset : {0, 5, 20}) {  // 20: six of the ten tokens lie past the grid
        const Rope tables = grid(cpu, style, offset);
        const Tensor x = cpu.random({10, 24}, 4, type);
        const std::vector<double> want = rotated(wide(x), tables, 10, 3);
        rope(cpu, as_heads(x, 8), tables);
        expect_near(x, want, rounding(type));
      }
}

TEST(Rope, LeavesTheColumnsBesideItsHeadsAlone) {
  CpuCtx cpu;
  const Tensor packed = cpu.random({6, 40}, 5), before = cpu.random({6, 40}, 5);
  rope(cpu, as_heads(packed, 8, 3, 8), grid(cpu, RopeStyle::halves));
  for (int64_t s = 0; s < 6; ++s)
    for (int64_t i = 0; i < 40; ++i)
      EXPECT_EQ(packed.row(s).data<float>()[i] == before.row(s).data<float>()[i], i < 8 || i >= 32) << s << " " << i;
}

// Norm over all heads or each, any types, with and without rotation, out of a packed projection into a strided slot.
TEST(NormRope, EqualsItsPlainFormBitForBitAndItsFormula) {
  CpuCtx cpu, plain(2, false);
  for (const DType type : types)
    for (const DType out : types)
      for (const int64_t normed : {8, 24})
        for (const bool rotate : {false, true}) {
          const Rope tables = grid(cpu, RopeStyle::adjacent, 15);
          const Tensor packed = cpu.random({12, 40}, 6, type), w = cpu.random({normed}, 7);
          const Tensor slot = cpu.poisoned({12, 32}, out), other = cpu.poisoned({12, 32}, out);
          const Heads x = as_heads(packed, 16, 3, 8);
          norm_rope(cpu, x, w, 1e-6f, rotate ? &tables : nullptr, as_heads(slot, 8, 3, 8));
          norm_rope(plain, x, w, 1e-6f, rotate ? &tables : nullptr, as_heads(other, 8, 3, 8));
          expect_same_bits(slot, other);
          EXPECT_EQ(plain.c.counts().count("norm_rope"), 0u);

          std::vector<double> want, got;
          for (int64_t s = 0; s < 12; ++s)
            for (int64_t from = 16; from < 40; from += normed) {
              double sum = 0;
              for (int64_t i = 0; i < normed; ++i)
                sum += std::pow(wide(packed)[static_cast<size_t>(s * 40 + from + i)], 2);
              for (int64_t i = 0; i < normed; ++i)
                want.push_back(wide(packed)[static_cast<size_t>(s * 40 + from + i)] *
                               double{values_of(w)[static_cast<size_t>(i)]} /
                               std::sqrt(sum / static_cast<double>(normed) + 1e-6));
            }
          for (int64_t s = 0; s < 12; ++s)
            for (size_t i = 8; i < 32; ++i) got.push_back(wide(slot.row(s))[i]);
          if (rotate) want = rotated(want, tables, 12, 3);
          expect_near(got, want, 2 * rounding(out));
        }
}

// Two ranks with two heads and one, whose sums of squares are added up, do what one with all three does.
TEST(NormRope, OfSomeHeadsByTheSquaresOfAll) {
  CpuCtx cpu, plain(2, false);
  for (const DType type : types) {
    const Rope tables = grid(cpu, RopeStyle::adjacent, 15);
    const Tensor packed = cpu.random({12, 40}, 6, type), w = cpu.random({24}, 7), whole = cpu.poisoned({12, 24}, type);
    const Heads x = as_heads(packed, 16, 3, 8);
    norm_rope(cpu, x, w, 1e-6f, &tables, as_heads(whole, 8));

    const Tensor sums = cpu.poisoned({2, 12}, DType::f32);
    square_sums(cpu, x, sums.row(0));
    const Tensor at_once = cpu.poisoned({12, 24}, type);
    norm_rope(cpu, x, w, 1e-6f, &tables, as_heads(at_once, 8), {sums.row(0), 24});
    expect_same_bits(at_once, whole);

    square_sums(cpu, slice_heads(x, 0, 2), sums.row(0));
    square_sums(cpu, slice_heads(x, 2, 3), sums.row(1));
    add(cpu, sums.row(0), sums.row(1));
    const Tensor fused = cpu.poisoned({12, 24}, type), composed = cpu.poisoned({12, 24}, type);
    for (const auto& [c, out] : {std::pair<CpuCtx&, const Tensor&>(cpu, fused), {plain, composed}})
      for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 2}, {2, 3}})
        norm_rope(c, slice_heads(x, from, to), w.rows(8 * from, 8 * to), 1e-6f, &tables,
                  slice_heads(as_heads(out, 8), from, to), {sums.row(0), 24});
    expect_same_bits(fused, composed);
    expect_near(values_of(fused), values_of(whole), rounding(type));
  }
}

TEST(CopyHeads, MovesBetweenLayouts) {
  CpuCtx cpu;
  for (const DType type : types) {
    const Tensor from = cpu.random({7, 40}, 1, type), to = cpu.poisoned({7, 24}, type);
    copy_heads(cpu, as_heads(from, 8, 3, 8), as_heads(to, 8));
    for (int64_t s = 0; s < 7; ++s)
      for (size_t i = 0; i < 24; ++i) EXPECT_EQ(values_of(to.row(s))[i], values_of(from.row(s))[i + 8]);
  }
}

TEST(CopyHeads, MovesBytes) {
  CpuCtx cpu;
  const Tensor from = cpu.poisoned({3, 10}, DType::u8), to = cpu.poisoned({3, 4}, DType::u8);
  for (int64_t i = 0; i < 30; ++i) from.data<uint8_t>()[i] = static_cast<uint8_t>(i);
  copy_heads(cpu, as_heads(from, 3, 2, 2), as_heads(to, 2));
  EXPECT_EQ(values_of(to), (std::vector<float>{3, 4, 5, 6, 13, 14, 15, 16, 23, 24, 25, 26}));
}

TEST(Rope, RefusesWhatDoesNotFit) {
  CpuCtx cpu;
  const Heads x = as_heads(cpu.random({4, 24}, 1), 12), y = as_heads(cpu.random({4, 16}, 1), 8);
  EXPECT_EQ(words([&] { rope(cpu, x, grid(cpu, RopeStyle::halves)); }),
            "rope: tables hold 4 pairs but heads are 12 wide");
  EXPECT_EQ(words([&] { rope(cpu, y, grid(cpu, RopeStyle::halves, -1)); }), "rope: offset -1 is negative");
  EXPECT_EQ(words([&] { norm_rope(cpu, y, cpu.random({6}, 1), 1e-6f, nullptr, y); }),
            "norm_rope: w is [6] but x has 2 heads of 8");
  EXPECT_EQ(words([&] {
              norm_rope(cpu, y, cpu.random({8}, 1), 1e-6f, nullptr, y, {cpu.random({4}, 1), 32});
            }),
            "norm_rope: w is [8] for each of 2 heads, but sums of squares are given for all of them together");
  EXPECT_EQ(words([&] { copy_heads(cpu, x, y); }), "copy_heads: from 4x2x12 to 4x2x8");
}

}  // namespace
}  // namespace zoetrope
