// What bit-equal meshes rest on: a row's (token's, pixel's) bits depend on its own inputs only, never on how many rows
// there are, where it stands, or how many threads work.
#include <functional>

#include "ops/ops.h"
#include "support/device_ctx.h"

namespace zoetrope {
namespace {

constexpr DType types[] = {DType::f32, DType::bf16};
const ConvOptions same{1, 1, 1, 1};

Tensor pick(DeviceCtx& dev, const Tensor& x, const std::vector<int64_t>& rows) {
  const Tensor y = dev.poisoned(x.shape().with(0, static_cast<int64_t>(rows.size())), x.dtype());
  for (size_t i = 0; i < rows.size(); ++i)
    copy(dev, x.rows(rows[i], rows[i] + 1), y.rows(static_cast<int64_t>(i), static_cast<int64_t>(i) + 1));
  return y;
}

TEST(Bits, OfALinearRowDependOnNothingButTheRow) {
  DeviceCtx dev;
  for (const DType type : types)
    for (const auto& [in, out] : {std::pair<int64_t, int64_t>{96, 64}, {256, 1536}, {1300, 200}, {33, 7}}) {
      SCOPED_TRACE(cat(type, " ", in, " to ", out));
      const Tensor x = dev.random({300, in}, 1, type), w = dev.random({out, in}, 2, type), b = dev.random({out}, 3);
      const Tensor y = linear(dev, x, w, b, {.act = Act::silu});
      for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 1}, {5, 22}, {255, 300}, {299, 300}})
        expect_same_bits(linear(dev, x.rows(from, to), w, b, {.act = Act::silu}), y.rows(from, to));
      std::vector<int64_t> order;
      for (int64_t i = 0; i < 300; ++i) order.push_back((i * 7 + 11) % 300);
      expect_same_bits(linear(dev, pick(dev, x, order), w, b, {.act = Act::silu}), pick(dev, y, order));
    }
}

TEST(Bits, OfALinearColumnDoNotDependOnWhichWholePanelsSurroundIt) {
  DeviceCtx
      dev;  // what a packed [Q; K; V] projection and its three row slices rest on, for widths that are multiples of 64
  const Tensor x = dev.random({40, 128}, 1), w = dev.random({3 * 128, 128}, 2);
  const Tensor all = linear(dev, x, w, {});
  for (int64_t part = 0; part < 3; ++part) {
    const std::vector<float> one = values_of(linear(dev, x, w.rows(part * 128, (part + 1) * 128), {})),
                             packed = values_of(all);
    for (size_t s = 0; s < 40; ++s)
      for (size_t i = 0; i < 128; ++i)
        ASSERT_EQ(one[s * 128 + i], packed[s * 384 + static_cast<size_t>(part) * 128 + i]);
  }
}

TEST(Bits, OfAQueryDependOnItsRowAndTheKeysAlone) {
  DeviceCtx dev;
  for (const DType type : types)
    for (const auto& [keys, width] : {std::pair<int64_t, int64_t>{300, 64}, {77, 128}, {129, 20}, {131, 384}}) {
      SCOPED_TRACE(cat(type, " ", keys, " keys, width ", width));
      const Tensor q = dev.random({290, 3 * width}, 1, type);
      const Heads k = as_heads(dev.random({keys, 3 * width}, 2, type), width),
                  v = as_heads(dev.random({keys, 3 * width}, 3, type), width);
      const Partial all = attention(dev, as_heads(q, width), k, v);
      for (const auto& [from, to] : {std::pair<int64_t, int64_t>{0, 1}, {3, 20}, {120, 290}, {289, 290}}) {
        const Partial some = attention(dev, as_heads(q.rows(from, to), width), k, v);
        expect_same_bits(some.o, all.o.rows(from, to));
        const std::vector<float> one = values_of(some.lse), every = values_of(all.lse);
        const auto at = [](int64_t n, int64_t s, int64_t tokens) { return static_cast<size_t>(n * tokens + s); };
        for (int64_t n = 0; n < 3; ++n)
          for (int64_t s = from; s < to; ++s) ASSERT_EQ(one[at(n, s - from, to - from)], every[at(n, s, 290)]);
      }
      for (int64_t n = 0; n < 3; ++n) {  // and each head alone, as a head split computes it
        const Partial one = attention(dev, slice_heads(as_heads(q, width), n, n + 1), slice_heads(k, n, n + 1),
                                      slice_heads(v, n, n + 1));
        for (int64_t s = 0; s < 290; ++s) expect_same_bits(one.o.row(s), all.o.row(s).rows(n, n + 1));
      }
    }
}

TEST(Bits, OfAQueryDoNotDependOnPaddingBehindTheKeys) {
  DeviceCtx dev;
  for (const DType type : types) {
    const Tensor kv = dev.random({400, 32}, 1, type);
    const Heads q = as_heads(dev.random({20, 32}, 2, type), 32), k = as_heads(kv, 32);
    for (const int64_t real : {100, 128, 200})
      expect_same_bits(attention(dev, q, k, k, {.keys = real}).o,
                       attention(dev, q, slice(k, 0, real), slice(k, 0, real)).o);
  }
}

// Columns [from, to) of every row of x[T, H, W, C].
Tensor columns(DeviceCtx& dev, const Tensor& x, int64_t from, int64_t to) {
  const Tensor y = dev.poisoned({x.dim(0), x.dim(1), to - from, x.dim(3)}, x.dtype());
  const Tensor in = x.view({x.dim(0) * x.dim(1), x.dim(2), x.dim(3)}),
               out = y.view({y.dim(0) * y.dim(1), y.dim(2), y.dim(3)});
  for (int64_t r = 0; r < in.dim(0); ++r) copy(dev, in.row(r).rows(from, to), out.row(r));
  return y;
}

TEST(Bits, OfAPixelAreTheSameInASplitWithHaloAndInTheWhole) {
  DeviceCtx dev;
  for (const DType type : types)
    for (const int64_t channels : {16, 96, 200}) {
      SCOPED_TRACE(cat(type, " ", channels, " channels"));
      const Tensor x = dev.random({4, 10, 23, channels}, 1, type),
                   w = dev.random({channels, 3, 3, 3, channels}, 2, type), b = dev.random({channels}, 3);
      const Tensor whole = conv(dev, x, w, b, same, {}), residual = dev.random(whole.shape(), 4, type),
                   sum = conv(dev, x, w, b, same, residual);
      const int64_t cuts[] = {0, 7, 8, 23};
      for (int part = 0; part < 3; ++part) {  // columns: pad only at the frame's own edges
        const int64_t from = cuts[part], to = cuts[part + 1], left = from > 0, right = to < 23;
        const Tensor slab = columns(dev, x, from - left, to + right);
        const Tensor y = conv(dev, slab, w, b, {1, 1, left ? 0 : 1, right ? 0 : 1}, {});
        expect_same_bits(y, columns(dev, whole, from, to));
        const Tensor more =
            conv(dev, slab, w, b, {1, 1, left ? 0 : 1, right ? 0 : 1}, columns(dev, residual, from, to));
        expect_same_bits(more, columns(dev, sum, from, to));
      }
      const Tensor one = x.rows(0, 3);  // rows [4, 10) of the first output frame
      const Tensor tall = dev.poisoned({3, 7, 23, channels}, type);
      for (int64_t t = 0; t < 3; ++t) copy(dev, one.row(t).rows(3, 10), tall.row(t));
      expect_same_bits(conv(dev, tall, w, b, {0, 1, 1, 1}, {}).row(0), whole.row(0).rows(4, 10));
      expect_same_bits(conv(dev, x.rows(1, 4), w, b, same, {}), whole.rows(1, 2));  // frames in chunks
      expect_same_bits(conv(dev, x.rows(1, 4), w, b, same, residual.rows(1, 2)), sum.rows(1, 2));
    }
}

// An order of the sum that depends on where a pixel lies shows in one of 100,000 rounded results: it takes many pixels.
struct WideBits : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Channels, WideBits, testing::Values(8, 16, 32, 96));
TEST_P(WideBits, OfAPixelAreTheSameWhereverItLiesInAWidePicture) {
  DeviceCtx dev;
  const int64_t channels = GetParam(), rows = 320 / channels + 4, wide = 512;
  for (const int64_t outputs : {int64_t{3}, int64_t{8}, channels}) {
    const Tensor x = dev.random({4, rows, wide, channels}, 1, DType::bf16),
                 w = dev.random({outputs, 3, 3, 3, channels}, 2, DType::bf16), b = dev.random({outputs}, 3);
    const Tensor whole = conv(dev, x, w, b, {1, 1, 1, 1}, {});
    const int64_t cuts[] = {0, 155, 332, wide};
    for (int part = 0; part < 3; ++part) {
      SCOPED_TRACE(cat(channels, " to ", outputs, " channels, part ", part));
      const int64_t from = cuts[part], to = cuts[part + 1], left = from > 0, right = to < wide;
      const Tensor slab = columns(dev, x, from - left, to + right);
      expect_same_bits(conv(dev, slab, w, b, {1, 1, left ? 0 : 1, right ? 0 : 1}, {}), columns(dev, whole, from, to));
    }
  }
}

// What Slab::enlarge rests on: zeros beside a part that are not the frame's spoil its outermost corners alone.
TEST_P(WideBits, OfACornerAreTheSameWhereverItLiesInAWidePicture) {
  DeviceCtx dev;
  const int64_t channels = GetParam(), rows = 320 / channels + 4, wide = 512;
  const Tensor x = dev.random({1, rows, wide, channels}, 1, DType::bf16),
               w = dev.random({channels, 1, 2, 2, channels}, 2, DType::bf16),
               b = dev.random({channels}, 3, DType::bf16);
  const Tensor whole = conv(dev, x, w, b, same, {});  // [1, rows + 1, wide + 1, channels]
  const int64_t cuts[] = {0, 155, 332, wide};
  for (int part = 0; part < 3; ++part) {
    SCOPED_TRACE(cat(channels, " channels, part ", part));
    const int64_t from = cuts[part], to = cuts[part + 1], left = from > 0, right = to < wide;
    const Tensor y = conv(dev, columns(dev, x, from - left, to + right), w, b, same, {});
    expect_same_bits(columns(dev, y, left, left + to - from + 1), columns(dev, whole, from, to + 1));
  }
}

TEST(Bits, OfAHalvedPixelAreTheSameInASplit) {
  DeviceCtx dev;
  const Tensor x = dev.random({1, 6, 12, 24}, 1), w = dev.random({24, 1, 3, 3, 24}, 2);
  const Tensor halved = conv(dev, x, w, {}, {0, 1, 0, 1, 2}, {});  // [1, 3, 6, 24]
  expect_same_bits(conv(dev, columns(dev, x, 4, 12), w, {}, {0, 1, 0, 1, 2}, {}), columns(dev, halved, 2, 6));
}

TEST(Bits, AreTheSameOnASideStream) {
  DeviceCtx dev;
  const Tensor x = dev.random({100, 96}, 1), w = dev.random({64, 96}, 2), here = linear(dev, x, w, {});
  Tensor there, meanwhile;
  {
    Fork side(dev.c);
    there = linear(side, x, w, {});
    meanwhile = linear(dev, x, w, {});
  }
  expect_same_bits(here, there);
  expect_same_bits(here, meanwhile);
}

}  // namespace
}  // namespace zoetrope
