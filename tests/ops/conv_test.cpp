#include "ops/ops.h"
#include "support/device_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

// The definition in ops.h, sample by sample. x [T + kt - 1, H, W, I], w [O, kt, kh, kw, I].
std::vector<double> reference(const Tensor& x, const Tensor& w, const Tensor& b, const ConvOptions& o,
                              const Tensor& add, const Shape& y) {
  const std::vector<float> in = values_of(x), weight = values_of(w), bias = values_of(b);
  const std::vector<float> more = add.defined() ? values_of(add) : std::vector<float>(static_cast<size_t>(y.size()));
  const int64_t inputs = x.dim(3);
  std::vector<double> out;
  for (int64_t t = 0; t < y[0]; ++t)
    for (int64_t r = 0; r < y[1]; ++r)
      for (int64_t col = 0; col < y[2]; ++col)
        for (int64_t ch = 0; ch < y[3]; ++ch) {
          double sum = double{bias[static_cast<size_t>(ch)]} + double{more[out.size()]};
          for (int64_t kt = 0; kt < w.dim(1); ++kt)
            for (int64_t kh = 0; kh < w.dim(2); ++kh)
              for (int64_t kw = 0; kw < w.dim(3); ++kw) {
                const int64_t row = r * o.stride + kh - o.top, column = col * o.stride + kw - o.left;
                if (row < 0 || row >= x.dim(1) || column < 0 || column >= x.dim(2)) continue;
                const int64_t at = (((t + kt) * x.dim(1) + row) * x.dim(2) + column) * inputs;
                const int64_t tap = (((ch * w.dim(1) + kt) * w.dim(2) + kh) * w.dim(3) + kw) * inputs;
                for (int64_t i = 0; i < inputs; ++i)
                  sum += double{in[static_cast<size_t>(at + i)]} * double{weight[static_cast<size_t>(tap + i)]};
              }
          out.push_back(sum);
        }
  return out;
}

struct Case {
  Shape x, w;
  ConvOptions options;
};
const ConvOptions same{1, 1, 1, 1}, halve{0, 1, 0, 1, 2};

TEST(Conv, MatchesItsDefinition) {
  DeviceCtx dev;
  const Case cases[] = {
      {{3, 5, 7, 3}, {16, 3, 3, 3, 3}, same},   {{4, 4, 4, 16}, {3, 3, 3, 3, 16}, same},
      {{3, 6, 5, 96}, {96, 3, 3, 3, 96}, same}, {{1, 3, 3, 200}, {70, 1, 3, 3, 200}, same},
      {{2, 6, 8, 8}, {8, 1, 3, 3, 8}, halve},   {{1, 7, 5, 8}, {8, 1, 3, 3, 8}, halve},
      {{2, 3, 5, 8}, {12, 1, 2, 2, 8}, same},   {{5, 2, 3, 20}, {40, 3, 1, 1, 20}, {}},
      {{1, 1, 1, 4}, {4, 1, 1, 1, 4}, {}},      {{2, 4, 4, 5}, {6, 1, 1, 1, 5}, {}},
      {{3, 1, 1, 6}, {5, 3, 3, 3, 6}, same},    {{1, 9, 2, 700}, {5, 1, 3, 3, 700}, {2, 0, 1, 1}},
      {{1, 20, 20, 8}, {80, 1, 3, 3, 8}, same}, {{2, 5, 4, 8}, {12, 1, 3, 3, 8}, {-1, -1, 1, 0}},
  };
  for (const DType type : {DType::f32, DType::bf16})
    for (const auto& [xs, ws, options] : cases)
      for (const bool with_add : {false, true}) {
        SCOPED_TRACE(cat(type, " x ", xs, " w ", ws));
        const Tensor x = dev.random(xs, 1, type), w = dev.random(ws, 2, type, 0.2f), b = dev.random({ws[0]}, 3);
        dev.poison_scratch();
        Scope scope(dev.c.scratch());
        const Shape shape = conv(dev, x, w, b, options, {}).shape();
        const Tensor add = with_add ? dev.random(shape, 4, type) : Tensor{};
        const Tensor y = conv(dev, x, w, b, options, add);
        expect_near(y, reference(x, w, b, options, add, shape), type == DType::bf16 ? rounding(type) : 4e-6);
      }
}

// [a, b O + o, 0, r, s]: the taps of w[o, 0] that meet small pixel (r, s), in fp32 and in order, rounded once.
TEST(Conv, TakesTheWeightsOfAnEnlargedPictureApart) {
  DeviceCtx dev;
  const std::vector<int> taps[2][2] = {{{0, 1}, {2}}, {{0}, {1, 2}}};  // of side a, on small row r
  for (const DType type : {DType::f32, DType::bf16})
    for (const DType out : {DType::f32, DType::bf16}) {
      const Tensor w = dev.random({5, 1, 3, 3, 12}, 1, type);
      const Tensor y = corner_weights(dev, w, out, dev.c.request());
      ASSERT_EQ(y.shape(), Shape({2, 10, 1, 2, 2, 12}));
      const std::vector<float> from = values_of(w);
      std::vector<float> want;
      for (size_t a = 0; a < 2; ++a)
        for (size_t b = 0; b < 2; ++b)
          for (size_t o = 0; o < 5; ++o)
            for (size_t r = 0; r < 2; ++r)
              for (size_t s = 0; s < 2; ++s)
                for (size_t i = 0; i < 12; ++i) {
                  float sum = 0;
                  for (const int row : taps[a][r])
                    for (const int column : taps[b][s])
                      sum += from[(o * 9 + static_cast<size_t>(3 * row + column)) * 12 + i];
                  want.push_back(sum);
                }
      const Tensor exact = dev.tensor(y.shape(), want);
      expect_same_bits(y, cast(dev, exact, out));
    }
  EXPECT_EQ(words([&] {
              corner_weights(dev, dev.random({4, 3, 3, 3, 2}, 2), DType::f32, dev.c.request());
            }),
            "corner_weights: w is [4, 3, 3, 3, 2]");
}

TEST(Conv, GivesTheSizesOfItsOptions) {
  DeviceCtx dev;
  const Tensor x = dev.random({3, 6, 8, 2}, 1), w = dev.random({4, 3, 3, 3, 2}, 2);
  EXPECT_EQ(conv(dev, x, w, {}, same, {}).shape(), Shape({1, 6, 8, 4}));
  EXPECT_EQ(conv(dev, x, w, {}, halve, {}).shape(), Shape({1, 3, 4, 4}));
  EXPECT_EQ(conv(dev, x, w, {}, {}, {}).shape(), Shape({1, 4, 6, 4}));
}

TEST(Conv, RefusesWhatDoesNotFit) {
  DeviceCtx dev;
  const Tensor x = dev.random({2, 4, 4, 2}, 1), w = dev.random({4, 3, 3, 3, 2}, 2);
  EXPECT_EQ(words([&] { conv(dev, x, w, {}, same, {}); }), "conv: x [2, 4, 4, 2] is smaller than w [4, 3, 3, 3, 2]");
  EXPECT_EQ(words([&] {
              conv(dev, x, dev.random({4, 1, 3, 3, 6}, 2), {}, same, {});
            }),
            "conv: x is [2, 4, 4, 2] fp32 but w is [4, 1, 3, 3, 6] fp32");
  EXPECT_EQ(words([&] {
              conv(dev, x, dev.random({4, 1, 3, 3, 2}, 2), {}, same, dev.random({2, 4, 4, 3}, 1));
            }),
            "conv: add is [2, 4, 4, 3] fp32, should be [2, 4, 4, 4] fp32");
}

}  // namespace
}  // namespace zoetrope
