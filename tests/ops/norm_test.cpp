#include "ops/compose.h"
#include "ops/ops.h"
#include "support/device_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

constexpr DType types[] = {DType::f32, DType::bf16};
constexpr int64_t widths[] = {1, 5, 64, 97, 600, 1537};  // the last two are rows of a whole block

using Row = std::vector<double>;

// f(row, row number) over the rows of x, in fp64.
template <class F>
std::vector<double> by_rows(const Tensor& x, F f) {
  const std::vector<float> values = values_of(x);
  const auto n = static_cast<size_t>(x.dim(-1));
  std::vector<double> y;
  for (size_t at = 0; at < values.size(); at += n) {
    const Row row = f(Row(values.begin() + at, values.begin() + at + n), at / n);
    y.insert(y.end(), row.begin(), row.end());
  }
  return y;
}

double mean_of(const Row& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum / static_cast<double>(x.size());
}

Row centred(Row x, double eps) {
  const double mean = mean_of(x);
  for (double& v : x) v -= mean;
  double var = 0;
  for (const double v : x) var += v * v;
  for (double& v : x) v /= std::sqrt(var / static_cast<double>(x.size()) + eps);
  return x;
}

double square_mean(const Row& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return sum / static_cast<double>(x.size());
}

// Calls f(x, y's type) for each pair of types and each width.
template <class F>
void for_cases(DeviceCtx& dev, F f) {
  for (const DType type : types)
    for (const DType out : types)
      for (const int64_t width : widths) {
        SCOPED_TRACE(cat(type, " to ", out, " width ", width));
        dev.poison_scratch();
        Scope scope(dev.c.scratch());
        f(dev.random({13, width}, 1, type, 3), out);
      }
}

TEST(RmsNorm, MatchesItsFormula) {
  DeviceCtx dev;
  for_cases(dev, [&](const Tensor& x, DType out) {
    for (const DType weight : types) {
      const Tensor w = dev.random({x.dim(1)}, 2, weight);
      const std::vector<float> gain = values_of(w);
      expect_near(rms_norm(dev, x, w, 1e-6f, out),
                  by_rows(x,
                          [&](Row row, size_t) {
                            const double size = std::sqrt(square_mean(row) + 1e-6);
                            for (size_t i = 0; i < row.size(); ++i) row[i] *= double{gain[i]} / size;
                            return row;
                          }),
                  rounding(out));
    }
  });
}

TEST(LayerNorm, MatchesItsFormulaWithAndWithoutWeights) {
  DeviceCtx dev;
  for_cases(dev, [&](const Tensor& x, DType out) {
    if (x.dim(1) == 1) return;  // x - mean is all rounding error
    const Tensor w = dev.random({x.dim(1)}, 2), b = dev.random({x.dim(1)}, 3, DType::bf16);
    expect_near(layer_norm(dev, x, {}, {}, 1e-6f, out),
                by_rows(x, [](const Row& row, size_t) { return centred(row, 1e-6); }), rounding(out));
    for (const Tensor& bias : {b, Tensor{}})
      expect_near(layer_norm(dev, x, w, bias, 1e-6f, out),
                  by_rows(x,
                          [&](const Row& row, size_t) {
                            Row y = centred(row, 1e-6);
                            for (size_t i = 0; i < y.size(); ++i)
                              y[i] = y[i] * double{values_of(w)[i]} + (bias.defined() ? double{values_of(b)[i]} : 0);
                            return y;
                          }),
                  rounding(out));
  });
}

TEST(LayerNorm, KeepsItsDigitsFarFromZero) {
  DeviceCtx dev;
  std::vector<float> far = random_values(64, 4);
  for (float& v : far) v += 1000;
  const Tensor x = dev.tensor({1, 64}, far);
  expect_near(layer_norm(dev, x, {}, {}, 1e-6f, DType::f32),
              by_rows(x, [](const Row& r, size_t) { return centred(r, 1e-6); }), 1e-4);
}

struct Tables {
  explicit Tables(const Modulation& m_) : m(m_), shifts(values_of(m.shift)), scales(values_of(m.scale)) {
    if (m.rows.defined()) rows = values_of(m.rows);
  }
  Modulation m;
  std::vector<float> shifts, scales, rows;
  double shift(size_t row, size_t i) const { return at(shifts, row, i); }
  double scale(size_t row, size_t i) const { return at(scales, row, i); }
  double at(const std::vector<float>& table, size_t row, size_t i) const {
    const auto r = static_cast<size_t>(rows.empty() ? 0 : rows[row]);
    return double{table[r * static_cast<size_t>(m.shift.dim(1)) + i]};
  }
};

Tables tables(DeviceCtx& dev, int64_t width, bool by_token) {
  const std::vector<int32_t> rows{2, 0, 1, 1, 0, 2, 2, 2, 0, 1, 0, 0, 1};
  return Tables({dev.random({3, width}, 7), dev.random({3, width}, 8), by_token ? dev.ints(rows) : Tensor{}});
}

TEST(Modulate, MatchesItsFormulaWithOneRowOrOneAToken) {
  DeviceCtx dev;
  for_cases(dev, [&](const Tensor& x, DType out) {
    for (const bool by_token : {false, true}) {
      const Tables t = tables(dev, x.dim(1), by_token);
      expect_near(modulate(dev, x, t.m, out),
                  by_rows(x,
                          [&](Row row, size_t s) {
                            for (size_t i = 0; i < row.size(); ++i)
                              row[i] = row[i] * (1 + t.scale(s, i)) + t.shift(s, i);
                            return row;
                          }),
                  rounding(out));
    }
  });
}

TEST(NormModulate, MatchesItsFormulaAndItsPlainFormBitForBit) {
  DeviceCtx dev, plain(2, false);
  for_cases(dev, [&](const Tensor& x, DType out) {
    for (const bool by_token : {false, true}) {
      const Tables t = tables(dev, x.dim(1), by_token);
      const Tensor y = norm_modulate(dev, x, t.m, 1e-6f, out);
      expect_same_bits(y, norm_modulate(plain, x, t.m, 1e-6f, out));
      EXPECT_EQ(plain.c.counts().count("norm_modulate"), 0u);
      if (x.dim(1) > 1)
        expect_near(y,
                    by_rows(x,
                            [&](const Row& row, size_t s) {
                              Row z = centred(row, 1e-6);
                              for (size_t i = 0; i < z.size(); ++i) z[i] = z[i] * (1 + t.scale(s, i)) + t.shift(s, i);
                              return z;
                            }),
                    rounding(out));
    }
  });
}

TEST(GateAdd, AddsToTheResidualStreamInPlace) {
  DeviceCtx dev;
  for_cases(dev, [&](const Tensor& y, DType) {
    for (const bool by_token : {false, true}) {
      const Tables t = tables(dev, y.dim(1), by_token);
      const Tensor h = dev.random(y.shape(), 9), plain = dev.random(y.shape(), 9);
      const std::vector<float> before = values_of(plain);
      const std::vector<double> want = by_rows(y, [&](Row row, size_t s) {
        for (size_t i = 0; i < row.size(); ++i) row[i] = row[i] * t.shift(s, i) + double{before[s * row.size() + i]};
        return row;
      });
      gate_add(dev, h, y, t.m.shift, t.m.rows);
      expect_near(h, want, 1e-6);
      gate_add(dev, plain, y, {}, {});
      std::vector<float> sum = random_values(y.size(), 9);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values_of(y)[i];
      expect_near(plain, sum, 0);
    }
  });
}

// Both norms, with and without a gate, on short rows and on ones that need many threads.
TEST(GateAddNorm, IsGateAddThenTheNormBitForBit) {
  DeviceCtx dev, plain(2, false);
  for (const DType type : types)
    for (const DType out : types)
      for (const int64_t width : {1, 5, 64, 97, 1536, 5120})
        for (const bool gated : {false, true})
          for (const bool modulated : {false, true})
            for (const bool by_token : {false, true}) {
              SCOPED_TRACE(
                  cat(type, " to ", out, " width ", width, gated ? " gated" : "", modulated ? " modulated" : ""));
              Scope once(dev.c.request()), scratch(dev.c.scratch());
              const Tables t = tables(dev, width, by_token);
              const Tensor y = dev.random({13, width}, 1, type, 3), gate = gated ? dev.random({3, width}, 4) : Tensor{};
              const NextNorm affine{1e-6f, dev.random({width}, 2), dev.random({width}, 3, DType::bf16)},
                  next = modulated ? NextNorm{.eps = 1e-6f, .m = t.m} : affine;
              Tensor h[3], n[3];
              for (Tensor& one : h) one = dev.random(y.shape(), 9);
              for (Tensor& one : n) one = dev.poisoned(y.shape(), out);
              gate_add_norm(dev, h[0], y, gate, t.m.rows, next, n[0]);
              gate_add_norm(plain, h[1], y, gate, t.m.rows, next, n[1]);
              gate_add(dev, h[2], y, gate, t.m.rows);
              n[2] = modulated ? norm_modulate(dev, h[2], t.m, 1e-6f, out)
                               : layer_norm(dev, h[2], affine.w, affine.b, 1e-6f, out);
              for (int i = 1; i < 3; ++i) expect_same_bits(h[0], h[i]), expect_same_bits(n[0], n[i]);
            }
  EXPECT_EQ(plain.c.counts().count("gate_add_norm"), 0u);
  EXPECT_GT(dev.c.counts().at("gate_add_norm").calls, 0);
}

TEST(ChannelNorm, MatchesItsFormulaWithAndWithoutSilu) {
  DeviceCtx dev;
  for (const DType type : types)
    for (const int64_t width : {1, 5, 64, 96, 97, 192, 384})
      for (const bool with_silu : {false, true}) {
        const Tensor x = dev.random({2, 3, 4, width}, 1, type, 3), gamma = dev.random({width}, 2, type),
                     y = dev.poisoned(x.shape(), type);
        channel_norm(dev, x, gamma, with_silu, y);
        expect_near(y,
                    by_rows(x,
                            [&](Row row, size_t) {
                              const double factor =
                                  std::sqrt(static_cast<double>(width)) /
                                  std::max(1e-12, std::sqrt(square_mean(row) * static_cast<double>(width)));
                              for (size_t i = 0; i < row.size(); ++i) {
                                row[i] *= factor * double{values_of(gamma)[i]};
                                if (with_silu) row[i] /= 1 + std::exp(-row[i]);
                              }
                              return row;
                            }),
                    rounding(type));
        channel_norm(dev, x, gamma, with_silu, x);  // in place
        expect_same_bits(x, y);
      }
}

TEST(ChannelNorm, BehindAnAdditionHasTheBitsOfThePlainForm) {
  DeviceCtx dev;
  for (const DType type : types)
    for (const int64_t width : {3, 8, 96, 100, 192, 384, 400, 776})
      for (const bool with_silu : {false, true}) {
        SCOPED_TRACE(cat(type, " ", width, " channels"));
        const Tensor more = dev.random({2, 3, 4, width}, 2, type, 3), gamma = dev.random({width}, 3, type);
        Tensor sums[2], norms[2];
        for (int fused = 0; fused < 2; ++fused) {
          sums[fused] = dev.random({2, 3, 4, width}, 1, type, 3), norms[fused] = dev.poisoned(more.shape(), type);
          (fused ? add_channel_norm : compose::add_channel_norm)(dev, sums[fused], more, gamma, with_silu,
                                                                 norms[fused]);
        }
        expect_same_bits(sums[1], sums[0]), expect_same_bits(norms[1], norms[0]);
      }
}

// Widths of the released decoder have a kernel of their own where everything is aligned: the bits of the general one,
// and no write behind the last pixel. `away`: elements that x and gamma lie off an aligned address.
TEST(ChannelNorm, HasTheSameBitsAtEveryAddress) {
  DeviceCtx dev;
  for (const int64_t width : {96, 192, 384})
    for (const int64_t pixels : {1, 37, 64})
      for (const bool addition : {false, true}) {
        SCOPED_TRACE(cat(pixels, " pixels of ", width, " channels", addition ? ", behind an addition" : ""));
        const int64_t n = pixels * width;
        const auto at = [&](const Tensor& values, int64_t away) {
          const Tensor room = dev.poisoned({values.size() + 16}, DType::bf16);
          const Tensor x(static_cast<std::byte*>(room.raw()) + 2 * away, values.shape(), DType::bf16);
          copy(dev, values, x);
          return x;
        };
        const Tensor values = dev.random({1, 1, pixels, width}, 1, DType::bf16, 3),
                     more = dev.random(values.shape(), 2, DType::bf16, 3), gamma = dev.random({width}, 3, DType::bf16);
        std::vector<float> norms[2], sums[2];
        for (int64_t away = 0; away < 2; ++away) {
          const Tensor x = at(values, away), room = dev.poisoned({n + 16}, DType::bf16);
          const Tensor y(room.raw(), values.shape(), DType::bf16);
          const std::vector<float> behind = values_of(room.rows(n, n + 16));
          if (addition)
            add_channel_norm(dev, x, more, at(gamma, away), true, y);
          else
            channel_norm(dev, x, at(gamma, away), true, y);
          norms[away] = values_of(y), sums[away] = values_of(x);
          EXPECT_EQ(std::memcmp(behind.data(), values_of(room.rows(n, n + 16)).data(), 16 * sizeof(float)), 0);
        }
        EXPECT_EQ(norms[0], norms[1]);
        EXPECT_EQ(sums[0], sums[1]);
      }
}

TEST(ChannelNorm, OfZeroIsZero) {
  DeviceCtx dev;
  const Tensor x = dev.tensor({1, 1, 1, 4}, std::vector<float>(4)), y = dev.poisoned(x.shape(), DType::f32);
  channel_norm(dev, x, dev.random({4}, 1), false, y);
  EXPECT_EQ(values_of(y), std::vector<float>(4));
}

TEST(SquareSums, OfTheTokensOfAStridedView) {
  DeviceCtx dev;
  for (const DType type : types)
    for (const int64_t heads : {0, 1, 3}) {
      const Tensor packed = dev.random({11, 5 * 14}, 1, type, 3), sums = dev.poisoned({11}, DType::f32);
      square_sums(dev, as_heads(packed, 14, heads, 14), sums);
      const std::vector<double> want = by_rows(packed, [&](const Row& row, size_t) {
        double sum = 0;
        for (int64_t i = 14; i < 14 + heads * 14; ++i) sum += std::pow(row[static_cast<size_t>(i)], 2);
        return Row{sum};
      });
      expect_near(sums, want, 1e-6);
    }
}

// A rank that holds some columns norms them as one that holds all.
TEST(RmsNorm, OfAPartOfEachRow) {
  DeviceCtx dev;
  for_cases(dev, [&](const Tensor& x, DType out) {
    const int64_t columns = x.dim(1);
    const Tensor w = dev.random({columns}, 2), sums = dev.poisoned({13}, DType::f32);
    square_sums(dev, as_heads(x, columns), sums);
    expect_same_bits(rms_norm(dev, x, w, 1e-6f, out, {sums, columns}), rms_norm(dev, x, w, 1e-6f, out));
    fill(dev, sums, 3);  // of 12 columns elsewhere
    const Tensor y = rms_norm(dev, x, w, 1e-6f, out, {sums, columns + 12});
    expect_near(y,
                by_rows(x,
                        [&](Row row, size_t) {
                          for (size_t i = 0; i < row.size(); ++i)
                            row[i] *=
                                double{values_of(w)[i]} / std::sqrt(3.0 / static_cast<double>(columns + 12) + 1e-6);
                          return row;
                        }),
                rounding(out));
  });
}

TEST(Norms, RefuseWhatDoesNotFit) {
  DeviceCtx dev;
  const Tensor x = dev.random({2, 8}, 1), w = dev.random({6}, 2), table = dev.random({1, 8}, 3);
  EXPECT_EQ(words([&] { rms_norm(dev, x, w, 1e-6f, DType::f32); }), "rms_norm: w is [6] but x has 8 channels");
  EXPECT_EQ(words([&] { rms_norm(dev, x, {}, 1e-6f, DType::f32); }), "rms_norm: no weight given");
  const Tensor all = dev.random({8}, 4), two = dev.random({2}, 5);
  EXPECT_EQ(words([&] {
              rms_norm(dev, x, all, 1e-6f, DType::f32, {all, 8});
            }),
            "rms_norm: the sums of squares is [8] fp32, should be [2] fp32");
  EXPECT_EQ(words([&] {
              rms_norm(dev, x, all, 1e-6f, DType::f32, {two, 7});
            }),
            "rms_norm: sums of squares over 7 columns, of which x has 8");
  EXPECT_EQ(words([&] { square_sums(dev, as_heads(x, 4), all); }), "square_sums: sums is [8] fp32, should be [2] fp32");
  EXPECT_EQ(words([&] { layer_norm(dev, x, {}, w, 1e-6f, DType::f32); }), "layer_norm: b is [6] but x has 8 channels");
  EXPECT_EQ(words([&] {
              modulate(dev, x, {table, dev.random({1, 6}, 1), {}}, DType::f32);
            }),
            "modulate: the table is [1, 6] fp32 but x is [2, 8]");
  EXPECT_EQ(words([&] {
              norm_modulate(dev, x, {table, table, dev.ints(std::vector<int32_t>{0})}, 1e-6f, DType::f32);
            }),
            "norm_modulate: rows is [1] but x is [2, 8]");
  EXPECT_EQ(words([&] {
              gate_add(dev, dev.random({2, 8}, 1, DType::bf16), x, {}, {});
            }),
            "gate_add: h is [2, 8] bf16, should be [2, 8] fp32");
  const Tensor h = dev.random({2, 8}, 6);
  EXPECT_EQ(words([&] { gate_add_norm(dev, h, x, {}, {}, {.w = w}, x); }),
            "gate_add_norm: w is [6] but x has 8 channels");
  EXPECT_EQ(words([&] {
              gate_add_norm(dev, h, x, {}, {}, {.m = {table, dev.random({1, 6}, 1), {}}}, x);
            }),
            "gate_add_norm: the table is [1, 6] fp32 but x is [2, 8]");
  EXPECT_EQ(words([&] {
              gate_add_norm(dev, h, x, {}, {}, {.w = all, .m = {table, table, {}}}, x);
            }),
            "gate_add_norm: weights and a modulation are given, one of them is needed");
  EXPECT_EQ(words([&] {
              gate_add_norm(dev, h, x, {}, {}, {.m = {{}, table, {}}}, x);
            }),
            "gate_add_norm: a modulation has scales or rows but no shifts");
  EXPECT_EQ(words([&] { gate_add_norm(dev, h, x, {}, {}, {.w = all}, w); }),
            "gate_add_norm: n is [6] fp32 but h is [2, 8]");
  EXPECT_EQ(words([&] {
              norm_modulate_into(dev, h, {table, table, {}}, 1e-6f, w);
            }),
            "norm_modulate: y is [6] fp32 but x is [2, 8]");
  EXPECT_EQ(words([&] { channel_norm(dev, x, w, true, x); }), "channel_norm: gamma is [6] but x has 8 channels");
  EXPECT_EQ(words([&] { add_channel_norm(dev, x, w, all, true, x); }),
            "add_channel_norm: more is [6] fp32, should be [2, 8] fp32");
}

}  // namespace
}  // namespace zoetrope
