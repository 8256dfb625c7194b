#include "ops/ops.h"
#include "support/device_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

constexpr DType types[] = {DType::f32, DType::bf16};

// A [2, 3, 4] grid of tokens; 2 + 1 + 1 pairs, so heads are 8 wide.
Rope grid(DeviceCtx& dev, RopeStyle style, int64_t offset = 0) {
  return {{dev.random({2, 2, 2}, 1), dev.random({3, 1, 2}, 2), dev.random({4, 1, 2}, 3)}, style, offset};
}

std::vector<double> rotated(std::vector<double> x, const Rope& rope, int64_t tokens, int64_t heads) {
  const int64_t width = 8, half = 4;
  std::vector<float> tables[3];
  for (int axis = 0; axis < 3; ++axis) tables[axis] = values_of(rope.axis[axis]);
  for (int64_t s = 0; s < tokens && rope.offset + s < 24; ++s)
    for (int64_t n = 0; n < heads; ++n)
      for (int64_t p = 0; p < half; ++p) {
        const int64_t place = rope.offset + s, at[] = {place / 12, place / 4 % 3, place % 4};
        const int axis = p < 2 ? 0 : p == 2 ? 1 : 2;
        const float* cell = tables[axis].data() + 2 * rope.axis[axis].dim(1) * at[axis] + (axis == 0 ? 2 * p : 0);
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
  DeviceCtx dev;
  for (const DType type : types)
    for (const RopeStyle style : {RopeStyle::adjacent, RopeStyle::halves})
      for (const int64_t offset : {0, 5, 20}) {  // 20: six of the ten tokens lie past the grid
        const Rope tables = grid(dev, style, offset);
        const Tensor x = dev.random({10, 24}, 4, type);
        const std::vector<double> want = rotated(wide(x), tables, 10, 3);
        rope(dev, as_heads(x, 8), tables);
        expect_near(x, want, rounding(type));
      }
}

TEST(Rope, LeavesTheColumnsBesideItsHeadsAlone) {
  DeviceCtx dev;
  const Tensor packed = dev.random({6, 40}, 5), before = dev.random({6, 40}, 5);
  rope(dev, as_heads(packed, 8, 3, 8), grid(dev, RopeStyle::halves));
  const std::vector<float> now = values_of(packed), then = values_of(before);
  for (size_t i = 0; i < now.size(); ++i) EXPECT_EQ(now[i] == then[i], i % 40 < 8 || i % 40 >= 32) << i;
}

// Norm over all heads or each, any types, with and without rotation, out of a packed projection into a strided slot.
TEST(NormRope, EqualsItsPlainFormBitForBitAndItsFormula) {
  DeviceCtx dev, plain(2, false);
  for (const DType type : types)
    for (const DType out : types)
      for (const int64_t normed : {8, 24})
        for (const bool rotate : {false, true}) {
          const Rope tables = grid(dev, RopeStyle::adjacent, 15);
          const Tensor packed = dev.random({12, 40}, 6, type), w = dev.random({normed}, 7);
          const Tensor slot = dev.poisoned({12, 32}, out), other = dev.poisoned({12, 32}, out);
          const Heads x = as_heads(packed, 16, 3, 8);
          norm_rope(dev, x, w, 1e-6f, rotate ? &tables : nullptr, as_heads(slot, 8, 3, 8));
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
  DeviceCtx dev, plain(2, false);
  for (const DType type : types) {
    const Rope tables = grid(dev, RopeStyle::adjacent, 15);
    const Tensor packed = dev.random({12, 40}, 6, type), w = dev.random({24}, 7), whole = dev.poisoned({12, 24}, type);
    const Heads x = as_heads(packed, 16, 3, 8);
    norm_rope(dev, x, w, 1e-6f, &tables, as_heads(whole, 8));

    const Tensor sums = dev.poisoned({2, 12}, DType::f32);
    square_sums(dev, x, sums.row(0));
    const Tensor at_once = dev.poisoned({12, 24}, type);
    norm_rope(dev, x, w, 1e-6f, &tables, as_heads(at_once, 8), {sums.row(0), 24});
    expect_same_bits(at_once, whole);

    square_sums(dev, slice_heads(x, 0, 2), sums.row(0));
    square_sums(dev, slice_heads(x, 2, 3), sums.row(1));
    add(dev, sums.row(0), sums.row(1));
    const Tensor fused = dev.poisoned({12, 24}, type), composed = dev.poisoned({12, 24}, type);
    for (const auto& [c, out] : {std::pair<DeviceCtx&, const Tensor&>(dev, fused), {plain, composed}})
      for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 2}, {2, 3}})
        norm_rope(c, slice_heads(x, from, to), w.rows(8 * from, 8 * to), 1e-6f, &tables,
                  slice_heads(as_heads(out, 8), from, to), {sums.row(0), 24});
    expect_same_bits(fused, composed);
    expect_near(values_of(fused), values_of(whole), rounding(type));
  }
}

// Heads that part: chunks of a message of unequal numbers of heads, a head that two get, and more places than a kernel
// takes at once; aligned and not.
TEST(NormRope, WritesEachHeadToItsPlaces) {
  DeviceCtx dev, plain(2, false);
  const int64_t tokens = 12;
  const auto chunks = [&](const Tensor& message, int64_t width, const std::vector<std::pair<int64_t, int64_t>>& spans) {
    std::vector<HeadPart> parts;
    for (size_t p = 0; p < spans.size(); ++p) {
      const Heads all =
          as_heads(message.rows(static_cast<int64_t>(p) * tokens, static_cast<int64_t>(p + 1) * tokens), width);
      parts.push_back({slice_heads(all, 1, 1 + spans[p].second - spans[p].first), spans[p].first});
    }
    return HeadParts(parts);
  };
  std::vector<std::pair<int64_t, int64_t>> each;
  for (int64_t head = 0; head < 70; ++head) each.emplace_back(head, head + 1);
  const std::vector<std::pair<int64_t, std::vector<std::pair<int64_t, int64_t>>>> cases{
      {5, {{0, 2}, {2, 4}, {4, 5}}}, {2, {{0, 1}, {0, 1}, {1, 2}, {1, 2}}}, {70, each}, {4, {{2, 4}, {0, 2}}}};
  for (const auto& [heads, spans] : cases)
    for (const int64_t width : {8, 6})
      for (const bool together : {true, false})
        for (const RopeStyle style : {RopeStyle::adjacent, RopeStyle::halves})
          for (const DType type : types)
            for (const DType out : types) {
              const int64_t columns = heads * width, slot = 1 + 4;
              Rope tables = grid(dev, style, 15);
              if (width == 6) tables.axis[0] = dev.random({2, 1, 2}, 1);
              const Tensor x = dev.random({tokens, columns}, 6, type);
              const Tensor w = dev.random({together ? columns : width}, 7),
                           dense = dev.poisoned({tokens, columns}, out);
              const Shape shape{static_cast<int64_t>(spans.size()) * tokens, slot * width};
              const Tensor fused = dev.poisoned(shape, out), composed = dev.poisoned(shape, out);
              norm_rope(dev, as_heads(x, width), w, 1e-6f, &tables, as_heads(dense, width));
              norm_rope(dev, as_heads(x, width), w, 1e-6f, &tables, chunks(fused, width, spans));
              norm_rope(plain, as_heads(x, width), w, 1e-6f, &tables, chunks(composed, width, spans));
              expect_same_bits(fused, composed);
              const auto whole = values_of(dense), got = values_of(fused);
              for (size_t p = 0; p < spans.size(); ++p)
                for (int64_t s = 0; s < tokens; ++s)
                  for (int64_t head = spans[p].first; head < spans[p].second; ++head)
                    for (int64_t d = 0; d < width; ++d)
                      ASSERT_EQ(
                          got[static_cast<size_t>(
                              ((static_cast<int64_t>(p) * tokens + s) * slot + 1 + head - spans[p].first) * width + d)],
                          whole[static_cast<size_t>((s * heads + head) * width + d)])
                          << heads << " heads of " << width << ", place " << p << ", token " << s << ", head " << head;
            }
}

TEST(NormRope, RefusesHeadsThatGoNowhereOrBeyond) {
  DeviceCtx dev;
  const Heads x = as_heads(dev.random({4, 24}, 1), 8), to = as_heads(dev.poisoned({4, 16}, DType::f32), 8);
  const Tensor w = dev.random({24}, 2);
  const auto said = [&](std::vector<HeadPart> parts) {
    return words([&] { norm_rope(dev, x, w, 1e-6f, nullptr, HeadParts(std::move(parts))); });
  };
  EXPECT_EQ(said({{to, 0}}), "norm_rope: head 2 goes nowhere");
  EXPECT_EQ(said({{to, 0}, {to, 2}}), "norm_rope: heads [2, 4) of 3");
  EXPECT_EQ(said({}), "norm_rope: head 0 goes nowhere");
}

TEST(CopyHeads, MovesBetweenLayouts) {
  DeviceCtx dev;
  for (const DType type : types) {
    const Tensor from = dev.random({7, 40}, 1, type), to = dev.poisoned({7, 24}, type);
    copy_heads(dev, as_heads(from, 8, 3, 8), as_heads(to, 8));
    for (int64_t s = 0; s < 7; ++s)
      for (size_t i = 0; i < 24; ++i) EXPECT_EQ(values_of(to.row(s))[i], values_of(from.row(s))[i + 8]);
  }
}

// As enlarged rows go to every other row of a frame.
TEST(CopyHeads, MovesLongRows) {
  DeviceCtx dev;
  for (const DType type : types)
    for (const int64_t width : {9000, 8200, 8191}) {
      const Tensor from = dev.random({3, width + 24}, 1, type), to = dev.poisoned({6, width}, type);
      fill(dev, to, 7);
      copy_heads(dev, {from, 8, width + 24, 3, 1, width}, {to, width, 2 * width, 3, 1, width});
      for (int64_t s = 0; s < 3; ++s) {
        const std::vector<float> row = values_of(from.row(s));
        EXPECT_EQ(values_of(to.row(2 * s)), std::vector<float>(static_cast<size_t>(width), 7));
        EXPECT_EQ(values_of(to.row(2 * s + 1)), std::vector<float>(row.begin() + 8, row.end() - 16));
      }
    }
}

TEST(CopyHeads, MovesBytes) {
  DeviceCtx dev;
  const Tensor from = dev.poisoned({3, 10}, DType::u8), to = dev.poisoned({3, 4}, DType::u8);
  std::vector<uint8_t> bytes(30);
  for (size_t i = 0; i < 30; ++i) bytes[i] = static_cast<uint8_t>(i);
  device::write(bytes.data(), from);
  copy_heads(dev, as_heads(from, 3, 2, 2), as_heads(to, 2));
  EXPECT_EQ(values_of(to), (std::vector<float>{3, 4, 5, 6, 13, 14, 15, 16, 23, 24, 25, 26}));
}

TEST(Rope, RefusesWhatDoesNotFit) {
  DeviceCtx dev;
  const Heads x = as_heads(dev.random({4, 24}, 1), 12), y = as_heads(dev.random({4, 16}, 1), 8);
  EXPECT_EQ(words([&] { rope(dev, x, grid(dev, RopeStyle::halves)); }),
            "rope: tables hold 4 pairs but heads are 12 wide");
  EXPECT_EQ(words([&] { rope(dev, y, grid(dev, RopeStyle::halves, -1)); }), "rope: offset -1 is negative");
  EXPECT_EQ(words([&] { norm_rope(dev, y, dev.random({6}, 1), 1e-6f, nullptr, y); }),
            "norm_rope: w is [6] but x has 2 heads of 8");
  EXPECT_EQ(words([&] {
              norm_rope(dev, y, dev.random({8}, 1), 1e-6f, nullptr, y, {dev.random({4}, 1), 32});
            }),
            "norm_rope: w is [8] for each of 2 heads, but sums of squares are given for all of them together");
  EXPECT_EQ(words([&] { copy_heads(dev, x, y); }), "copy_heads: from 4x2x12 to 4x2x8");
}

}  // namespace
}  // namespace zoetrope
