#include "ops/compose.h"
#include "ops/ops.h"
#include "support/cpu_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

constexpr DType types[] = {DType::f32, DType::bf16};
constexpr int64_t widths[] = {1, 5, 64, 97};

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
void for_cases(CpuCtx& cpu, F f) {
  for (const DType type : types)
    for (const DType out : types)
      for (const int64_t width : widths) {
        SCOPED_TRACE(cat(type, " to ", out, " width ", width));
        cpu.poison_scratch();
        Scope scope(cpu.c.scratch());
        f(cpu.random({13, width}, 1, type, 3), out);
      }
}

TEST(RmsNorm, MatchesItsFormula) {
  CpuCtx cpu;
  for_cases(cpu, [&](const Tensor& x, DType out) {
    for (const DType weight : types) {
      const Tensor w = cpu.random({x.dim(1)}, 2, weight);
      const std::vector<float> gain = values_of(w);
      expect_near(rms_norm(cpu, x, w, 1e-6f, out),
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
  CpuCtx cpu;
  for_cases(cpu, [&](const Tensor& x, DType out) {
    if (x.dim(1) == 1) return;  // x - mean is all rounding error
    const Tensor w = cpu.random({x.dim(1)}, 2), b = cpu.random({x.dim(1)}, 3, DType::bf16);
    expect_near(layer_norm(cpu, x, {}, {}, 1e-6f, out),
                by_rows(x, [](const Row& row, size_t) { return centred(row, 1e-6); }), rounding(out));
    for (const Tensor& bias : {b, Tensor{}})
      expect_near(layer_norm(cpu, x, w, bias, 1e-6f, out),
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
  CpuCtx cpu;
  std::vector<float> far = random_values(64, 4);
  for (float& v : far) v += 1000;
  const Tensor x = cpu.tensor({1, 64}, far);
  expect_near(layer_norm(cpu, x, {}, {}, 1e-6f, DType::f32),
              by_rows(x, [](const Row& r, size_t) { return centred(r, 1e-6); }), 1e-4);
}

struct Tables {
  Modulation m;
  double shift(size_t row, size_t i) const { return at(m.shift, row, i); }
  double scale(size_t row, size_t i) const { return at(m.scale, row, i); }
  double at(const Tensor& table, size_t row, size_t i) const {
    const auto r = static_cast<size_t>(m.rows.defined() ? m.rows.data<int32_t>()[row] : 0);
    return double{table.data<float>()[r * static_cast<size_t>(table.dim(1)) + i]};
  }
};

Tables tables(CpuCtx& cpu, int64_t width, bool by_token) {
  const std::vector<int32_t> rows{2, 0, 1, 1, 0, 2, 2, 2, 0, 1, 0, 0, 1};
  return {{cpu.random({3, width}, 7), cpu.random({3, width}, 8), by_token ? cpu.ints(rows) : Tensor{}}};
}

TEST(Modulate, MatchesItsFormulaWithOneRowOrOneAToken) {
  CpuCtx cpu;
  for_cases(cpu, [&](const Tensor& x, DType out) {
    for (const bool by_token : {false, true}) {
      const Tables t = tables(cpu, x.dim(1), by_token);
      expect_near(modulate(cpu, x, t.m, out),
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
  CpuCtx cpu, plain(2, false);
  for_cases(cpu, [&](const Tensor& x, DType out) {
    for (const bool by_token : {false, true}) {
      const Tables t = tables(cpu, x.dim(1), by_token);
      const Tensor y = norm_modulate(cpu, x, t.m, 1e-6f, out);
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
  CpuCtx cpu;
  for_cases(cpu, [&](const Tensor& y, DType) {
    for (const bool by_token : {false, true}) {
      const Tables t = tables(cpu, y.dim(1), by_token);
      const Tensor h = cpu.random(y.shape(), 9), plain = cpu.random(y.shape(), 9);
      const std::vector<double> want = by_rows(y, [&](Row row, size_t s) {
        for (size_t i = 0; i < row.size(); ++i)
          row[i] = row[i] * t.shift(s, i) + double{plain.data<float>()[s * row.size() + i]};
        return row;
      });
      gate_add(cpu, h, y, t.m.shift, t.m.rows);
      expect_near(h, want, 1e-6);
      gate_add(cpu, plain, y, {}, {});
      std::vector<float> sum = random_values(y.size(), 9);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values_of(y)[i];
      expect_near(plain, sum, 0);
    }
  });
}

TEST(ChannelNorm, MatchesItsFormulaWithAndWithoutSilu) {
  CpuCtx cpu;
  for (const DType type : types)
    for (const int64_t width : widths)
      for (const bool with_silu : {false, true}) {
        const Tensor x = cpu.random({2, 3, 4, width}, 1, type, 3), gamma = cpu.random({width}, 2),
                     y = cpu.poisoned(x.shape(), type);
        channel_norm(cpu, x, gamma, with_silu, y);
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
        channel_norm(cpu, x, gamma, with_silu, x);  // in place
        expect_same_bits(x, y);
      }
}

TEST(ChannelNorm, OfZeroIsZero) {
  CpuCtx cpu;
  const Tensor x = cpu.tensor({1, 1, 1, 4}, std::vector<float>(4)), y = cpu.poisoned(x.shape(), DType::f32);
  channel_norm(cpu, x, cpu.random({4}, 1), false, y);
  EXPECT_EQ(values_of(y), std::vector<float>(4));
}

TEST(SquareSums, OfTheTokensOfAStridedView) {
  CpuCtx cpu;
  for (const DType type : types)
    for (const int64_t heads : {0, 1, 3}) {
      const Tensor packed = cpu.random({11, 5 * 14}, 1, type, 3), sums = cpu.poisoned({11}, DType::f32);
      square_sums(cpu, as_heads(packed, 14, heads, 14), sums);
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
  CpuCtx cpu;
  for_cases(cpu, [&](const Tensor& x, DType out) {
    const int64_t columns = x.dim(1);
    const Tensor w = cpu.random({columns}, 2), sums = cpu.poisoned({13}, DType::f32);
    square_sums(cpu, as_heads(x, columns), sums);
    expect_same_bits(rms_norm(cpu, x, w, 1e-6f, out, {sums, columns}), rms_norm(cpu, x, w, 1e-6f, out));
    fill(cpu, sums, 3);  // of 12 columns elsewhere
    const Tensor y = rms_norm(cpu, x, w, 1e-6f, out, {sums, columns + 12});
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
  CpuCtx cpu;
  const Tensor x = cpu.random({2, 8}, 1), w = cpu.random({6}, 2), table = cpu.random({1, 8}, 3);
  EXPECT_EQ(words([&] { rms_norm(cpu, x, w, 1e-6f, DType::f32); }), "rms_norm: w is [6] but x has 8 channels");
  EXPECT_EQ(words([&] { rms_norm(cpu, x, {}, 1e-6f, DType::f32); }), "rms_norm: no weight given");
  const Tensor all = cpu.random({8}, 4), two = cpu.random({2}, 5);
  EXPECT_EQ(words([&] {
              rms_norm(cpu, x, all, 1e-6f, DType::f32, {all, 8});
            }),
            "rms_norm: the sums of squares is [8] fp32, should be [2] fp32");
  EXPECT_EQ(words([&] {
              rms_norm(cpu, x, all, 1e-6f, DType::f32, {two, 7});
            }),
            "rms_norm: sums of squares over 7 columns, of which x has 8");
  EXPECT_EQ(words([&] { square_sums(cpu, as_heads(x, 4), all); }), "square_sums: sums is [8] fp32, should be [2] fp32");
  EXPECT_EQ(words([&] { layer_norm(cpu, x, {}, w, 1e-6f, DType::f32); }), "layer_norm: b is [6] but x has 8 channels");
  EXPECT_EQ(words([&] {
              modulate(cpu, x, {table, cpu.random({1, 6}, 1), {}}, DType::f32);
            }),
            "modulate: the table is [1, 6] fp32 but x is [2, 8]");
  EXPECT_EQ(words([&] {
              norm_modulate(cpu, x, {table, table, cpu.ints(std::vector<int32_t>{0})}, 1e-6f, DType::f32);
            }),
            "norm_modulate: rows is [1] but x is [2, 8]");
  EXPECT_EQ(words([&] {
              gate_add(cpu, cpu.random({2, 8}, 1, DType::bf16), x, {}, {});
            }),
            "gate_add: h is [2, 8] bf16, should be [2, 8] fp32");
  EXPECT_EQ(words([&] { channel_norm(cpu, x, w, true, x); }), "channel_norm: gamma is [6] but x has 8 channels");
}

}  // namespace
}  // namespace zoetrope
