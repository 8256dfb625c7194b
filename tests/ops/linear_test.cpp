#include "ops/ops.h"
#include "support/cpu_ctx.h"
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
  CpuCtx cpu;
  for (const DType type : {DType::f32, DType::bf16})
    for (const auto& [rows, in, out] :
         {std::array<int64_t, 3>{1, 1, 1}, {3, 7, 5}, {17, 33, 65}, {16, 64, 64}, {300, 96, 129}, {5, 1100, 30}}) {
      SCOPED_TRACE(cat(type, " ", rows, "x", in, "x", out));
      const Tensor x = cpu.random({rows, in}, 1, type), w = cpu.random({out, in}, 2, type), b = cpu.random({out}, 3);
      cpu.poison_scratch();
      Scope scope(cpu.c.scratch());
      const Tensor y = linear(cpu, x, w, b);
      EXPECT_EQ(y.dtype(), type);
      expect_near(y, reference(x, w, b, Act::none), rounding(type));
    }
}

TEST(Linear, AppliesBiasAndActivationBeforeRoundingToAnyType) {
  CpuCtx cpu;
  for (const DType type : {DType::f32, DType::bf16})
    for (const DType out : {DType::f32, DType::bf16})
      for (const Act act : {Act::none, Act::gelu_tanh, Act::silu}) {
        const Tensor x = cpu.random({9, 40}, 4, type, 2), w = cpu.random({24, 40}, 5, type);
        for (const Tensor& b : {Tensor{}, cpu.random({24}, 6), cpu.random({24}, 6, type)}) {
          const Tensor y = cpu.poisoned({9, 24}, out);
          linear_into(cpu, x, w, b, act, y);
          expect_near(y, reference(x, w, b, act), rounding(out));
          Scope scope(cpu.c.scratch());
          expect_same_bits(linear(cpu, x, w, b, {act, out, true}), y);
        }
      }
}

TEST(Linear, TakesNoRows) {
  CpuCtx cpu;
  const Tensor y = linear(cpu, cpu.random({0, 8}, 1), cpu.random({4, 8}, 2), {});
  EXPECT_EQ(y.shape(), Shape({0, 4}));
}

TEST(Linear, PassesNotANumberOn) {
  CpuCtx cpu;
  const std::vector<float> x{1, NAN, 3, 4};
  const std::vector<float> y = values_of(linear(cpu, cpu.tensor({2, 2}, x), cpu.random({1, 2}, 2), {}));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_TRUE(std::isfinite(y[1]));
}

TEST(Linear, RefusesWhatDoesNotFit) {
  CpuCtx cpu;
  const Tensor x = cpu.random({2, 8}, 1), w = cpu.random({4, 8}, 2);
  EXPECT_EQ(words([&] { linear(cpu, x, cpu.random({4, 6}, 2), {}); }), "linear: x is [2, 8] but w is [4, 6]");
  EXPECT_EQ(words([&] { linear(cpu, x, cpu.random({4, 8}, 2, DType::bf16), {}); }), "linear: x is fp32 but w is bf16");
  EXPECT_EQ(words([&] { linear(cpu, x, w, cpu.random({3}, 3)); }), "linear: b is [3] but x has 4 channels");
  EXPECT_EQ(words([&] { linear(cpu, x, cpu.random({8}, 2), {}); }),
            "linear: x is [2, 8], w is [8]; two axes each are needed");
  EXPECT_EQ(words([&] {
              linear_into(cpu, x, w, {}, Act::none, cpu.poisoned({2, 3}, DType::f32));
            }),
            "linear: y is [2, 3] fp32");
}

}  // namespace
}  // namespace zoetrope
