#include "ops/ops.h"
#include "support/device_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

double act_of(Act act, double v) {
  if (act == Act::silu) return v / (1 + std::exp(-v));
  if (act == Act::gelu_tanh) return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  return v;
}

std::vector<double> reference(const Tensor& x, const Tensor& w, const Tensor& b, Act act) {
  const std::vector<float> left = values_of(x), right = values_of(w);
  const std::vector<float> bias = b.defined() ? values_of(b) : std::vector<float>(static_cast<size_t>(w.dim(0)));
  const auto rows = static_cast<size_t>(x.dim(0)), k = static_cast<size_t>(x.dim(1)), n = static_cast<size_t>(w.dim(0));
  std::vector<double> y(rows * n);
  for (size_t s = 0; s < rows; ++s)
    for (size_t o = 0; o < n; ++o) {
      double sum = bias[o];
      for (size_t i = 0; i < k; ++i) sum += double{left[s * k + i]} * double{right[o * k + i]};
      y[s * n + o] = act_of(act, sum);
    }
  return y;
}

TEST(Linear, MatchesPlainSumsAtOddShapes) {
  DeviceCtx dev;
  for (const DType type : {DType::f32, DType::bf16})
    for (const auto& [rows, in, out] :
         {std::array<int64_t, 3>{1, 1, 1}, {3, 7, 5}, {17, 33, 65}, {16, 64, 64}, {300, 96, 129}, {5, 1100, 30}}) {
      SCOPED_TRACE(cat(type, " ", rows, "x", in, "x", out));
      const Tensor x = dev.random({rows, in}, 1, type), w = dev.random({out, in}, 2, type), b = dev.random({out}, 3);
      dev.poison_scratch();
      Scope scope(dev.c.scratch());
      const Tensor y = linear(dev, x, w, b);
      EXPECT_EQ(y.dtype(), type);
      expect_near(y, reference(x, w, b, Act::none), rounding(type));
    }
}

TEST(Linear, AppliesBiasAndActivationBeforeRoundingToAnyType) {
  DeviceCtx dev;
  for (const DType type : {DType::f32, DType::bf16})
    for (const DType out : {DType::f32, DType::bf16})
      for (const Act act : {Act::none, Act::gelu_tanh, Act::silu}) {
        const Tensor x = dev.random({9, 40}, 4, type, 2), w = dev.random({24, 40}, 5, type);
        for (const Tensor& b : {Tensor{}, dev.random({24}, 6), dev.random({24}, 6, type)}) {
          const Tensor y = dev.poisoned({9, 24}, out);
          linear_into(dev, x, w, b, act, y);
          expect_near(y, reference(x, w, b, act), rounding(out));
          Scope scope(dev.c.scratch());
          expect_same_bits(linear(dev, x, w, b, {act, out, true}), y);
        }
      }
}

TEST(Linear, TakesNoRows) {
  DeviceCtx dev;
  const Tensor y = linear(dev, dev.random({0, 8}, 1), dev.random({4, 8}, 2), {});
  EXPECT_EQ(y.shape(), Shape({0, 4}));
}

TEST(Linear, PassesNotANumberOn) {
  DeviceCtx dev;
  const std::vector<float> x{1, NAN, 3, 4};
  const std::vector<float> y = values_of(linear(dev, dev.tensor({2, 2}, x), dev.random({1, 2}, 2), {}));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_TRUE(std::isfinite(y[1]));
}

TEST(Linear, RefusesWhatDoesNotFit) {
  DeviceCtx dev;
  const Tensor x = dev.random({2, 8}, 1), w = dev.random({4, 8}, 2);
  EXPECT_EQ(words([&] { linear(dev, x, dev.random({4, 6}, 2), {}); }), "linear: x is [2, 8] but w is [4, 6]");
  EXPECT_EQ(words([&] { linear(dev, x, dev.random({4, 8}, 2, DType::bf16), {}); }), "linear: x is fp32 but w is bf16");
  EXPECT_EQ(words([&] { linear(dev, x, w, dev.random({3}, 3)); }), "linear: b is [3] but x has 4 channels");
  EXPECT_EQ(words([&] { linear(dev, x, dev.random({8}, 2), {}); }),
            "linear: x is [2, 8], w is [8]; two axes each are needed");
  EXPECT_EQ(words([&] {
              linear_into(dev, x, w, {}, Act::none, dev.poisoned({2, 3}, DType::f32));
            }),
            "linear: y is [2, 3] fp32");
}

}  // namespace
}  // namespace zoetrope
