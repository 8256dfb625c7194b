#include "ops/ops.h"
#include "support/device_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

constexpr DType types[] = {DType::f32, DType::bf16};

template <class F>
std::vector<double> each(const Tensor& x, F f) {
  std::vector<double> y;
  for (const float v : values_of(x)) y.push_back(f(static_cast<double>(v), y.size()));
  return y;
}

double gelu(double v) { return 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); }

TEST(Elementwise, SiluAndGatedGeluMatchTheirFormulas) {
  DeviceCtx dev;
  for (const DType type : types)
    for (const int64_t n : {1, 31, 40000}) {
      const Tensor a = dev.random({n}, 1, type, 9), b = dev.random({n}, 2, type, 2);
      dev.poison_scratch();
      Scope scope(dev.c.scratch());
      expect_near(silu(dev, a), each(a, [](double v, size_t) { return v / (1 + std::exp(-v)); }),
                  (type == DType::bf16 ? 0x1p-8 : 5e-7));
      const std::vector<float> gate = values_of(b);
      expect_near(gated_gelu(dev, a, b), each(a, [&](double v, size_t i) { return gelu(v) * double{gate[i]}; }),
                  (type == DType::bf16 ? 0x1p-8 : 5e-7));
    }
}

TEST(Elementwise, SiluIsExactToAFewUnitsAndHoldsAtTheEnds) {
  DeviceCtx dev;
  const std::vector<float> x{-1e-3f, 1e-30f, 0, -0.7f, 3, -30, 87, -87.5f, 200, -200, INFINITY, 3e38f};
  const std::vector<float> y = values_of(silu(dev, dev.tensor({12}, x)));
  for (size_t i = 0; i < 10; ++i) {
    const double want = double{x[i]} / (1 + std::exp(-double{x[i]}));
    EXPECT_NEAR(y[i], want, 4e-7 * std::fabs(want) + 1e-36) << x[i];
  }
  EXPECT_EQ(y[10], INFINITY);
  EXPECT_EQ(y[11], 3e38f);
  EXPECT_TRUE(std::isnan(values_of(silu(dev, dev.tensor({1}, std::vector<float>{NAN})))[0]));
}

TEST(Elementwise, AddSumsInFp32AndStoresTheTargetsType) {
  DeviceCtx dev;
  for (const DType type : types)
    for (const DType other : types) {
      const Tensor into = dev.random({3, 50}, 1, type), x = dev.random({3, 50}, 2, other);
      const std::vector<float> more = values_of(x);
      const std::vector<double> want = each(into, [&](double v, size_t i) {
        const float sum = static_cast<float>(v) + more[i];
        return double{type == DType::bf16 ? float(bf16(sum)) : sum};
      });
      add(dev, into, x);
      expect_near(into, want, 0);
    }
}

TEST(Elementwise, CastRoundsToNearestEven) {
  DeviceCtx dev;
  std::vector<float> x = random_values(1000, 3);
  x.insert(x.end(), {1.00390625f, 1.01171875f, INFINITY, -INFINITY, 3.4e38f, -0.0f});
  const Tensor wide = dev.tensor({1006}, x), narrow = cast(dev, wide, DType::bf16);
  const OnHost host(narrow);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(host.data<bf16>()[i].bits, bf16(x[i]).bits);
  expect_near(cast(dev, narrow, DType::f32), values_of(narrow), 0);
  EXPECT_TRUE(std::isnan(values_of(cast(dev, dev.poisoned({1}, DType::f32), DType::bf16))[0]));
}

TEST(Elementwise, CopyAndFillReachEveryElement) {
  DeviceCtx dev;
  for (const DType type : types) {
    const Tensor from = dev.random({70001}, 1, type), to = dev.poisoned({70001}, type);
    copy(dev, from, to);
    expect_same_bits(from, to);
    fill(dev, to, 0.5f);
    EXPECT_EQ(values_of(to), std::vector<float>(70001, 0.5f));
  }
}

TEST(Elementwise, AffineScalesEachChannel) {
  DeviceCtx dev;
  for (const DType type : types)
    for (const DType out : types) {
      const Tensor x = dev.random({2, 3, 2, 5}, 1, type), scale = dev.random({5}, 2),
                   shift = dev.random({5}, 3, DType::bf16);
      expect_near(
          affine(dev, x, scale, shift, out),
          each(x, [&](double v,
                      size_t i) { return v * double{values_of(scale)[i % 5]} + double{values_of(shift)[i % 5]}; }),
          rounding(out));
    }
}

TEST(Elementwise, ToPixelsClampsAndRounds) {
  DeviceCtx dev;
  const std::vector<float> x{-1, 1, 0, -2, 7, -0.99999f, 0.003921569f, -0.0039215f, 0.5f, INFINITY, -INFINITY, NAN};
  const Tensor y = to_pixels(dev, dev.tensor({1, 2, 2, 3}, x));
  EXPECT_EQ(values_of(y), (std::vector<float>{0, 255, 128, 0, 255, 0, 128, 127, 191, 255, 0, 0}));
  for (const DType type : types) {
    const Tensor many = dev.random({2, 100, 100, 3}, 4, type, 1.2f);
    expect_near(to_pixels(dev, many),
                each(many, [](double v, size_t) { return std::nearbyint((std::clamp(v, -1.0, 1.0) + 1) / 2 * 255); }),
                0.5 / 255);
  }
}

TEST(Elementwise, GuideMovesFromUnconditionalTowardsConditional) {
  DeviceCtx dev;
  for (const DType type : types) {
    const Tensor cond = dev.random({2, 3, 4, 5}, 1, type), uncond = dev.random({2, 3, 4, 5}, 2, type);
    const std::vector<float> base = values_of(uncond);
    expect_near(guide(dev, cond, uncond, dev.tensor({1}, std::vector<float>{3.5f})),
                each(cond, [&](double v, size_t i) { return double{base[i]} + 3.5 * (v - double{base[i]}); }),
                rounding(type));
  }
}

TEST(Elementwise, MultistepUpdatesItsStateAndRotatesTheHistory) {
  DeviceCtx dev;
  const Shape shape{3, 5, 7, 2};
  const MultistepState state{dev.random(shape, 1), dev.random(shape, 2), dev.random(shape, 3), dev.random(shape, 4)};
  const Tensor v = dev.random(shape, 5), k = dev.random({multistep_coefficients}, 6);
  const std::vector<float> x = values_of(state.x), last = values_of(state.last), m1 = values_of(state.m1),
                           m2 = values_of(state.m2), f = values_of(k);
  const auto m = [&](size_t i) { return double{x[i]} - double{f[0]} * double{values_of(v)[i]}; };
  const auto y = [&](size_t i) {
    return double{f[1]} * double{x[i]} + double{f[2]} * double{last[i]} + double{f[3]} * double{m1[i]} +
           double{f[4]} * double{m2[i]} + double{f[5]} * m(i);
  };
  std::vector<double> next, wanted_y, wanted_m;
  for (size_t i = 0; i < x.size(); ++i) {
    wanted_m.push_back(m(i)), wanted_y.push_back(y(i));
    next.push_back(double{f[6]} * y(i) + double{f[7]} * m(i) + double{f[8]} * double{m1[i]});
  }
  multistep(dev, state, v, k);
  expect_near(state.x, next, 1e-6);
  expect_near(state.last, wanted_y, 1e-6);
  expect_near(state.m1, wanted_m, 1e-6);
  expect_near(state.m2, m1, 0);
}

// One pass and its composition: the same bits of state and count, for whole pieces and ragged ones, at any address.
struct GuidedMultistep : testing::TestWithParam<std::tuple<DType, bool>> {};
INSTANTIATE_TEST_SUITE_P(Forms, GuidedMultistep, testing::Combine(testing::ValuesIn(types), testing::Bool()));

// One step's tensors, `lead` elements behind an aligned address; the same numbers each time.
struct StepCase {
  MultistepState state;
  Predictions p;
  Tensor k, bad;

  StepCase(DeviceCtx& dev, int64_t n, int64_t lead, DType type, bool guided, float broken = 0)
      : state{part(dev, n, lead, 1), part(dev, n, lead, 2), part(dev, n, lead, 3), part(dev, n, lead, 4)},
        p{part(dev, n, lead, 5, type), {}, {}},
        k(dev.random({multistep_coefficients}, 7)),
        bad(dev.tensor({1}, std::vector<float>{2})) {
    if (guided) p.uncond = part(dev, n, lead, 6, type), p.scale = dev.tensor({1}, std::vector<float>{4.3f});
    if (broken != 0) fill(dev, p.cond.rows(n / 2, n / 2 + 1 + n / 7), broken);
  }
  static Tensor part(DeviceCtx& dev, int64_t n, int64_t lead, uint64_t seed, DType type = DType::f32) {
    return dev.random({lead + n}, seed, type).rows(lead, lead + n);
  }
  std::vector<Tensor> results() const { return {state.x, state.last, state.m1, state.m2, bad}; }
};

TEST_P(GuidedMultistep, HasTheBitsOfGuideAndMultistep) {
  const auto [type, guided] = GetParam();
  DeviceCtx fused, plain(2, false);
  for (const int64_t n : {1, 7, 8, 2048, 2051, 50000})
    for (const int64_t lead : {0, 3, 4})
      for (const float broken : {0.0f, NAN, -INFINITY}) {
        SCOPED_TRACE(cat(n, " elements behind ", lead, ", ", broken));
        const StepCase a(fused, n, lead, type, guided, broken), b(plain, n, lead, type, guided, broken);
        for (int step = 0; step < 2; ++step) {
          guided_multistep(fused, a.state, a.p, a.k, a.bad);
          guided_multistep(plain, b.state, b.p, b.k, b.bad);
        }
        for (size_t i = 0; i < a.results().size(); ++i) expect_same_bits(a.results()[i], b.results()[i]);
        EXPECT_EQ(values_of(a.bad)[0], broken == 0 ? 2 : 4 + 2 * (n / 7));
      }
  EXPECT_GT(fused.c.counts().at("guided_multistep").calls, 0);
  EXPECT_EQ(plain.c.counts().count("guided_multistep"), 0u);
}

TEST_P(GuidedMultistep, LeavesWhatIsBesideItAlone) {
  const auto [type, guided] = GetParam();
  DeviceCtx dev;
  const int64_t n = 1003;
  const Tensor around = dev.random({n + 16}, 1);
  const std::vector<float> before = values_of(around);
  StepCase a(dev, n, 0, type, guided);
  a.state.m2 = around.rows(8, 8 + n);
  guided_multistep(dev, a.state, a.p, a.k, a.bad);
  const std::vector<float> after = values_of(around);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(after[i], before[i]) << i;
    EXPECT_EQ(after[static_cast<size_t>(n) + 8 + i], before[static_cast<size_t>(n) + 8 + i]) << i;
  }
}

// A scale that is not finite, and elements that are none: what lies behind the end is not counted.
TEST(Elementwise, GuidedMultistepCountsItsOwnElementsAlone) {
  DeviceCtx dev;
  StepCase a(dev, 3, 0, DType::f32, true);
  a.p.scale = dev.tensor({1}, std::vector<float>{INFINITY});
  guided_multistep(dev, a.state, a.p, a.k, a.bad);
  EXPECT_EQ(values_of(a.bad)[0], 5);
}

TEST(Elementwise, GuidedMultistepStatesItsWork) {
  for (const bool guided : {false, true}) {
    DeviceCtx dev;
    const StepCase a(dev, 100, 0, DType::bf16, guided);
    guided_multistep(dev, a.state, a.p, a.k, a.bad);
    const OpCount& count = dev.c.counts().at("guided_multistep");
    EXPECT_EQ(count.flops, guided ? 2100 : 1800);
    EXPECT_EQ(count.bytes, 100 * (8 * 4 + (guided ? 4 : 2)));
  }
}

TEST(Elementwise, GuidedMultistepRefusesWhatDoesNotFit) {
  DeviceCtx dev;
  const StepCase a(dev, 6, 0, DType::f32, true);
  const auto said = [&](const Predictions& p, const MultistepState& state, const Tensor& k, const Tensor& bad) {
    return words([&] { guided_multistep(dev, state, p, k, bad); });
  };
  const Tensor other = dev.random({5}, 1), &cond = a.p.cond, &uncond = a.p.uncond, &scale = a.p.scale;
  EXPECT_EQ(said({dev.ints(std::vector<int32_t>{1}), {}, {}}, a.state, a.k, a.bad),
            "guided_multistep: x is int32, fp32 or bf16 is needed");
  EXPECT_EQ(said({cond, uncond, {}}, a.state, a.k, a.bad), "guided_multistep: uncond and scale are needed together");
  EXPECT_EQ(said({cond, {}, scale}, a.state, a.k, a.bad), "guided_multistep: uncond and scale are needed together");
  EXPECT_EQ(said({cond, other, scale}, a.state, a.k, a.bad),
            "guided_multistep: uncond is [5] fp32, should be [6] fp32");
  EXPECT_EQ(said({cond, uncond, other}, a.state, a.k, a.bad),
            "guided_multistep: scale is [5] fp32, should be [1] fp32");
  EXPECT_EQ(said(a.p, {a.state.x, a.state.last, a.state.m1, other}, a.k, a.bad),
            "guided_multistep: a part of the state is [5] fp32, should be [6] fp32");
  EXPECT_EQ(said(a.p, a.state, other, a.bad), "guided_multistep: k is [5] fp32, should be [9] fp32");
  EXPECT_EQ(said(a.p, a.state, a.k, other), "guided_multistep: bad is [5] fp32, should be [1] fp32");
}

TEST(Elementwise, RefusesWhatDoesNotFit) {
  DeviceCtx dev;
  const Tensor x = dev.random({2, 3}, 1), y = dev.random({3, 3}, 2), whole = dev.ints(std::vector<int32_t>{1});
  EXPECT_EQ(words([&] { silu(dev, whole); }), "silu: x is int32, fp32 or bf16 is needed");
  EXPECT_EQ(words([&] { gated_gelu(dev, x, y); }), "gated_gelu: b is [3, 3] fp32, should be [2, 3] fp32");
  EXPECT_EQ(words([&] { add(dev, x, y); }), "add: [3, 3] to [2, 3]");
  EXPECT_EQ(words([&] { cast(dev, x, DType::u8); }), "cast: to uint8, fp32 or bf16 is needed");
  EXPECT_EQ(words([&] { copy(dev, x, y); }), "copy: the target is [3, 3] fp32, should be [2, 3] fp32");
  EXPECT_EQ(words([&] { affine(dev, x, {}, {}, DType::f32); }), "affine: scale and shift are both needed");
  EXPECT_EQ(words([&] { guide(dev, x, x, y); }), "guide: scale is [3, 3] fp32, should be [1] fp32");
  EXPECT_EQ(words([&] {
              multistep(dev, {x, x, x, y}, x, x);
            }),
            "multistep: an operand is [3, 3] fp32, should be [2, 3] fp32");
}

}  // namespace
}  // namespace zoetrope
