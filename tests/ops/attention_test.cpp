#include <limits>

#include "ops/ops.h"
#include "support/device_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

constexpr double none = -std::numeric_limits<double>::infinity();

struct Wanted {
  std::vector<double> o, lse;
};

// Softmax over all keys at once, fp64. Axes: S queries, K keys, N query heads, M key heads, D width.
Wanted reference(const Heads& on_q, const Heads& on_k, const Heads& on_v, const AttentionOptions& options) {
  OnHost q_copy(on_q.buf), k_copy(on_k.buf), v_copy(on_v.buf);
  const auto here = [](const Heads& x, OnHost& copy) {
    Heads moved = x;
    moved.buf = copy.tensor();
    return moved;
  };
  const Heads q = here(on_q, q_copy), k = here(on_k, k_copy), v = here(on_v, v_copy);
  const std::vector<float> bias =
      options.relative_bias.defined() ? values_of(options.relative_bias) : std::vector<float>();
  const auto at = [](const Heads& x, int64_t s, int64_t n, int64_t d) {
    const int64_t i = n * x.width + d;
    return x.dtype() == DType::f32 ? double{x.token<float>(s)[i]} : static_cast<double>(float(x.token<bf16>(s)[i]));
  };
  const double scale = options.scale == 0 ? 1 / std::sqrt(static_cast<double>(q.width)) : double{options.scale};
  Wanted y{std::vector<double>(static_cast<size_t>(q.size())), {}};
  for (int64_t n = 0; n < q.heads; ++n)
    for (int64_t i = 0; i < q.tokens; ++i) {
      int64_t seen = options.keys < 0 ? k.tokens : options.keys;
      if (options.causal) seen = std::clamp<int64_t>(i + 1 + k.tokens - q.tokens, 0, seen);
      const int64_t m = n / (q.heads / k.heads);
      std::vector<double> logits;
      double top = none, total = 0;
      for (int64_t j = 0; j < seen; ++j) {
        double logit = 0;
        for (int64_t d = 0; d < q.width; ++d) logit += at(q, i, n, d) * at(k, j, m, d);
        logit *= scale;
        if (!bias.empty())
          logit += double{bias[static_cast<size_t>(n * (q.tokens + k.tokens - 1) + j - i + q.tokens - 1)]};
        logits.push_back(logit), top = std::max(top, logit);
      }
      for (double& logit : logits) total += logit = std::exp(logit - top);
      for (int64_t j = 0; j < seen; ++j)
        for (int64_t d = 0; d < q.width; ++d)
          y.o[static_cast<size_t>((i * q.heads + n) * q.width + d)] +=
              logits[static_cast<size_t>(j)] / total * at(v, j, m, d);
      y.lse.push_back(seen > 0 ? top + std::log(total) : none);
    }
  return y;
}

void expect_matches(const Partial& got, const Wanted& want) {
  expect_near(got.o, want.o, rounding(got.o.dtype()) * 2);
  expect_near(got.lse, want.lse, 4e-6);
}

struct Case {
  int64_t queries, keys, heads, key_heads, width;
};

TEST(Attention, MatchesSoftmaxAtOddShapes) {
  DeviceCtx dev;
  for (const DType type : {DType::f32, DType::bf16})
    for (const auto& [s, k, n, m, d] : {Case{1, 1, 1, 1, 1}, Case{5, 9, 2, 2, 8}, Case{33, 130, 4, 2, 20},
                                        Case{150, 300, 3, 1, 64}, Case{17, 129, 2, 2, 128}, Case{20, 20, 1, 1, 384},
                                        Case{1, 70, 4, 2, 136}, Case{37, 1, 1, 1, 192}, Case{70, 515, 2, 1, 256}})
      for (const bool causal : {false, true}) {
        SCOPED_TRACE(cat(type, " ", s, " queries ", k, " keys ", n, "/", m, " heads of ", d, causal ? " causal" : ""));
        const Heads q = as_heads(dev.random({s, n * d}, 1, type, 2), d),
                    key = as_heads(dev.random({k, m * d}, 2, type, 2), d),
                    v = as_heads(dev.random({k, m * d}, 3, type), d);
        dev.poison_scratch();
        Scope scope(dev.c.scratch());
        expect_matches(attention(dev, q, key, v, {.causal = causal}), reference(q, key, v, {.causal = causal}));
      }
}

TEST(Attention, ReadsStridedHeadsOfAPackedProjection) {
  DeviceCtx dev;
  const Tensor packed = dev.random({21, 4 * 16 + 2 * 16 + 2 * 16}, 4);
  const Heads q = as_heads(packed, 0, 4, 16), k = as_heads(packed, 64, 2, 16), v = as_heads(packed, 96, 2, 16);
  expect_matches(attention(dev, q, k, v), reference(q, k, v, {}));
  const Heads some = slice_heads(slice(q, 3, 20), 2, 4);
  expect_matches(attention(dev, some, k, v), reference(some, k, v, {}));
}

TEST(Attention, AddsTheRelativeBiasAfterTheScale) {
  DeviceCtx dev;
  for (const auto& [s, k] : {std::pair<int64_t, int64_t>{40, 40}, {7, 150}, {150, 7}}) {
    const Heads q = as_heads(dev.random({s, 48}, 5), 16), key = as_heads(dev.random({k, 48}, 6), 16),
                v = as_heads(dev.random({k, 48}, 7), 16);
    for (const bool causal : {false, true}) {
      const AttentionOptions options{
          .scale = 1, .causal = causal, .relative_bias = dev.random({3, s + k - 1}, 8, DType::f32, 3)};
      expect_matches(attention(dev, q, key, v, options), reference(q, key, v, options));
    }
  }
}

TEST(Attention, NeverReadsPaddingKeys) {
  DeviceCtx dev;
  for (const DType type : {DType::f32, DType::bf16})
    for (const int64_t real : {1, 100, 128, 140}) {
      Tensor kv = dev.random({150, 2 * 32}, 9, type);
      const Tensor padding = kv.rows(real, 150);
      device::poison(padding.raw(), static_cast<size_t>(padding.bytes()));  // NaN
      const Heads q = as_heads(dev.random({30, 32}, 10, type), 16), k = as_heads(kv, 0, 2, 16),
                  v = as_heads(kv, 32, 2, 16);
      expect_matches(attention(dev, q, k, v, {.keys = real}), reference(q, k, v, {.keys = real}));
      Tensor wide = dev.random({150, 2 * 144}, 11, type);
      const Tensor rest = wide.rows(real, 150);
      device::poison(rest.raw(), static_cast<size_t>(rest.bytes()));
      const Heads q1 = as_heads(dev.random({30, 144}, 12, type), 144), k1 = as_heads(wide, 0, 1, 144),
                  v1 = as_heads(wide, 144, 1, 144);
      expect_matches(attention(dev, q1, k1, v1, {.keys = real}), reference(q1, k1, v1, {.keys = real}));
    }
}

TEST(Attention, WithoutKeysIsZeroWithALogSumOfMinusInfinity) {
  DeviceCtx dev;
  const Heads q = as_heads(dev.random({3, 8}, 1), 4);
  for (const auto& [k, real] : {std::pair<int64_t, int64_t>{0, -1}, {5, 0}}) {
    dev.poison_scratch();
    Scope scope(dev.c.scratch());
    const Heads kv = as_heads(dev.poisoned({k, 8}, DType::f32), 4);
    const Partial y = attention(dev, q, kv, kv, {.keys = real});
    EXPECT_EQ(values_of(y.o), std::vector<float>(24, 0.0f));
    EXPECT_EQ(values_of(y.lse), std::vector<float>(6, -INFINITY));
  }
}

TEST(Attention, UnderACausalMaskEarlyQueriesMaySeeNothing) {
  DeviceCtx dev;
  const Heads q = as_heads(dev.random({200, 16}, 1), 16), k = as_heads(dev.random({10, 16}, 2), 16);
  expect_matches(attention(dev, q, k, k, {.causal = true}), reference(q, k, k, {.causal = true}));
}

TEST(Attention, KeepsLargeLogitsFinite) {
  DeviceCtx dev;
  const Heads q = as_heads(dev.random({4, 16}, 1, DType::f32, 100), 16),
              k = as_heads(dev.random({300, 16}, 2, DType::f32, 100), 16);
  expect_near(attention(dev, q, k, k).o, reference(q, k, k, {}).o, 1e-3);  // logits near 3e4 carry an error of 1e-3
}

TEST(Attention, PassesNotANumberOn) {
  DeviceCtx dev;
  std::vector<float> values = random_values(24, 1);
  values[9] = NAN;  // the second query
  const Tensor x = dev.tensor({3, 8}, values);
  const Heads k = as_heads(dev.random({5, 8}, 2), 8);
  const Partial y = attention(dev, as_heads(x, 8), k, k);
  const std::vector<float> o = values_of(y.o), lse = values_of(y.lse);
  EXPECT_TRUE(std::isfinite(o[0]) && std::isnan(o[8]) && std::isnan(lse[1]) && std::isfinite(o[16]));
}

TEST(Attention, RefusesWhatDoesNotFit) {
  DeviceCtx dev;
  const Heads q = as_heads(dev.random({4, 24}, 1), 8), k = as_heads(dev.random({4, 16}, 2), 8);
  EXPECT_EQ(words([&] { attention(dev, q, k, k); }), "attention: q has 3 heads of 8, k 2 of 8");
  EXPECT_EQ(words([&] { attention(dev, q, q, k); }), "attention k, v: from 4x3x8 to 4x2x8");
  EXPECT_EQ(words([&] { attention(dev, q, q, q, {.keys = 5}); }), "attention: 5 real keys of 4");
  EXPECT_EQ(words([&] {
              attention(dev, q, q, q, {.relative_bias = dev.random({3, 8}, 1)});
            }),
            "attention: relative_bias is [3, 8], should be [3, 7]");
}

// The keys of [0, K) in parts, each attended alone, then merged.
TEST(MergeAttention, OfDisjointKeysEqualsAllKeysAtOnce) {
  DeviceCtx dev;
  for (const DType type : {DType::f32, DType::bf16}) {
    const Heads q = as_heads(dev.random({19, 32}, 1, type, 2), 16), k = as_heads(dev.random({60, 32}, 2, type, 2), 16),
                v = as_heads(dev.random({60, 32}, 3, type), 16);
    const Partial whole = attention(dev, q, k, v);
    const Partial merged = attention(dev, q, slice(k, 0, 7), slice(v, 0, 7));
    for (const auto& [from, to] : {std::pair<int64_t, int64_t>{7, 7}, {7, 40}, {40, 60}})
      merge_attention(dev, merged, attention(dev, q, slice(k, from, to), slice(v, from, to)));
    expect_near(merged.o, values_of(whole.o), type == DType::bf16 ? 2e-2 : 2e-6);
    expect_near(merged.lse, values_of(whole.lse), 2e-6);
  }
}

TEST(MergeAttention, OfNothingChangesNothing) {
  DeviceCtx dev;
  const Heads q = as_heads(dev.random({5, 8}, 1), 4), k = as_heads(dev.random({6, 8}, 2), 4);
  const auto nothing = [&] {
    return Partial{dev.poisoned({5, 2, 4}, DType::f32), dev.tensor({2, 5}, std::vector<float>(10, -INFINITY))};
  };
  const Partial some = attention(dev, q, k, k), left = attention(dev, q, k, k), right = nothing();
  merge_attention(dev, left, nothing());
  expect_same_bits(left.o, some.o), expect_same_bits(left.lse, some.lse);
  merge_attention(dev, right, some);
  expect_same_bits(right.o, some.o), expect_same_bits(right.lse, some.lse);
  const Partial both = attention(dev, q, slice(k, 0, 0), slice(k, 0, 0));
  merge_attention(dev, both, nothing());
  EXPECT_EQ(values_of(both.o), std::vector<float>(40, 0.0f));
  EXPECT_EQ(values_of(both.lse), std::vector<float>(10, -INFINITY));
}

TEST(MergeAttention, RefusesWhatDoesNotFit) {
  DeviceCtx dev;
  const Partial a{dev.random({5, 2, 4}, 1), dev.random({2, 5}, 2)}, b{dev.random({4, 2, 4}, 1), dev.random({2, 4}, 2)};
  EXPECT_EQ(words([&] { merge_attention(dev, a, b); }),
            "merge_attention: o is [4, 2, 4] fp32, should be [5, 2, 4] fp32");
}

}  // namespace
}  // namespace zoetrope
