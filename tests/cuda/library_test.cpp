// Where a library works: cuDNN's attention against our kernel, its convolutions and cuBLASLt's products against plain
// sums at real channel counts, and the bits that meshes rest on there.
#include <cuda_runtime.h>

#include "ops/cuda/backend.h"
#include "ops/cuda/kernels.h"
#include "ops/ops.h"
#include "support/device_ctx.h"

namespace zoetrope {
namespace {

cudaStream_t stream(DeviceCtx& dev) { return static_cast<cudaStream_t>(dev.c.stream().native()); }

// Our kernel on the same bf16 values, fp32 inside and out.
Partial oracle(DeviceCtx& dev, const Heads& q, const Heads& k, const Heads& v, int64_t keys) {
  const auto wide = [&](const Heads& x) {
    const Tensor dense = dev.poisoned({x.tokens, x.heads, x.width}, DType::bf16);
    copy_heads(dev, x, as_heads(dense, x.width));
    const Tensor y = dev.poisoned(dense.shape(), DType::f32);
    cuda::cast(stream(dev), dense, y);
    return as_heads(y, x.width);
  };
  const Partial out{dev.poisoned({q.tokens, q.heads, q.width}, DType::f32),
                    dev.poisoned({q.heads, q.tokens}, DType::f32)};
  cuda::generic_attention(stream(dev), wide(q), wide(k), wide(v), 1 / std::sqrt(static_cast<float>(q.width)), false,
                          keys, {}, out.o, out.lse);
  return out;
}

double relative_l2(const Tensor& got, const Tensor& want) {
  const std::vector<float> a = values_of(got), b = values_of(want);
  double off = 0, size = 0;
  for (size_t i = 0; i < b.size(); ++i) off += std::pow(double{a[i]} - b[i], 2), size += std::pow(double{b[i]}, 2);
  return std::sqrt(off / size);
}

struct Case {
  int64_t queries, keys, real, heads, key_heads, width;
};

// Behind the real keys: NaN or infinity.
void expect_our_kernels_attention(const Case& shape, float behind) {
  const auto& [s, k, real, n, m, d] = shape;
  SCOPED_TRACE(cat(s, " queries, ", real, " of ", k, " keys, ", n, "/", m, " heads of ", d));
  DeviceCtx dev;
  const Heads q = as_heads(dev.random({s, n * d}, 1, DType::bf16, 2), d);
  const Tensor packed = dev.random({k, 2 * m * d}, 2, DType::bf16, 2);
  if (real < k) fill(dev, packed.rows(real, k), behind);
  const Heads key = as_heads(packed, 0, m, d), v = as_heads(packed, m * d, m, d);
  dev.poison_scratch(64u << 20);
  Scope scope(dev.c.scratch());
  const Partial got = attention(dev, q, key, v, {.keys = real}), want = oracle(dev, q, key, v, real);
  EXPECT_LE(relative_l2(got.o, want.o), 4e-3);
  expect_near(got.lse, values_of(want.lse), 1e-5);
}

TEST(Library, AttentionMatchesOurKernelAtManyShapes) {
  for (const float behind : {NAN, INFINITY})
    for (const Case& shape :
         {Case{1, 1, 1, 1, 1, 128}, Case{300, 512, 512, 4, 4, 128}, Case{300, 512, 77, 4, 4, 128},
          Case{1000, 1003, 1003, 5, 5, 128}, Case{257, 256, 5, 2, 2, 64}, Case{640, 640, 601, 6, 2, 128},
          Case{2000, 2304, 2101, 3, 3, 64}, Case{64, 4096, 4096, 12, 12, 128}, Case{129, 192, 191, 2, 1, 128},
          Case{128, 193, 193, 2, 2, 128}, Case{385, 385, 384, 3, 3, 128}, Case{2100, 400, 385, 40, 8, 128}})
      expect_our_kernels_attention(shape, behind);
}

// Each tile of keys has larger scores than all before it, or smaller ones.
TEST(Library, AttentionFollowsAMaximumThatGrowsOrStays) {
  const int64_t s = 200, keys = 1000, d = 128;
  for (const bool grows : {true, false}) {
    DeviceCtx dev;
    std::vector<float> rising = random_values(keys * d, 2, 0.5f);
    for (int64_t i = 0; i < keys * d; ++i)
      rising[static_cast<size_t>(i)] += 0.01f * static_cast<float>(grows ? i / d : keys - i / d);
    std::vector<float> positive = random_values(s * d, 1, 0.5f);
    for (float& x : positive) x += 0.6f;
    const Heads q = as_heads(dev.tensor({s, d}, positive, DType::bf16), d),
                k = as_heads(dev.tensor({keys, d}, rising, DType::bf16), d),
                v = as_heads(dev.random({keys, d}, 3, DType::bf16), d);
    Scope scope(dev.c.scratch());
    const Partial got = attention(dev, q, k, v), want = oracle(dev, q, k, v, keys);
    EXPECT_LE(relative_l2(got.o, want.o), 4e-3);
    expect_near(got.lse, values_of(want.lse), 1e-5);
  }
}

TEST(Library, AttentionBitsDoNotDependOnPaddingRowsOrHeads) {
  DeviceCtx dev;
  const int64_t d = 128, n = 6, s = 700;
  const Tensor x = dev.random({s + 192, 3 * n * d}, 3, DType::bf16, 2);
  const auto part = [&](int64_t i, int64_t tokens) { return slice(as_heads(x, i * n * d, n, d), 0, tokens); };
  const Partial whole = attention(dev, part(0, s), part(1, s), part(2, s));
  expect_same_bits(attention(dev, part(0, s), part(1, s + 192), part(2, s + 192), {.keys = s}).o, whole.o);
  const Partial some = attention(dev, slice(part(0, s), 300, s), part(1, s), part(2, s));
  expect_same_bits(some.o, whole.o.rows(300, s));
  const auto heads = [&](int64_t i) { return slice_heads(part(i, s), 2, 5); };
  const Partial few = attention(dev, heads(0), heads(1), heads(2));
  const Tensor want = dev.poisoned({s, 3, d}, DType::bf16);
  copy_heads(dev, slice_heads(as_heads(whole.o, d), 2, 5), as_heads(want, d));
  expect_same_bits(few.o, want);
}

// As in the middle of the VAE: one head, queries, keys and values of one projection; and as a rank has it, which holds
// some of the queries and gathered the keys.
void expect_our_kernels_wide_attention(int64_t tokens, int64_t width,
                                       const std::vector<std::pair<int64_t, int64_t>>& parts) {
  SCOPED_TRACE(cat(tokens, " tokens, width ", width));
  DeviceCtx dev;
  const Tensor packed = dev.random({tokens, 3 * width}, 1, DType::bf16, 2),
               kv = dev.poisoned({tokens, 2 * width}, DType::bf16);
  const Heads q = as_heads(packed, 0, 1, width), k = as_heads(packed, width, 1, width),
              v = as_heads(packed, 2 * width, 1, width);
  copy_heads(dev, as_heads(packed, width, 2, width), as_heads(kv, width));
  dev.poison_scratch(64u << 20);
  Scope scope(dev.c.scratch());
  const Partial whole = attention(dev, q, k, v), want = oracle(dev, q, k, v, tokens);
  EXPECT_LE(relative_l2(whole.o, want.o), 4e-3);
  expect_near(whole.lse, values_of(want.lse), 1e-5);
  for (const auto& [from, to] : parts) {
    const Partial some = attention(dev, slice(q, from, to), as_heads(kv, 0, 1, width), as_heads(kv, width, 1, width));
    expect_same_bits(some.o, whole.o.rows(from, to));
    expect_same_bits(some.lse.view({to - from}), whole.lse.view({tokens}).rows(from, to));
  }
}

TEST(Library, WideAttentionMatchesOurKernelAndKeepsItsBitsInParts) {
  for (const auto& [tokens, width] : {std::pair<int64_t, int64_t>{3600, 384}, {901, 192}, {5000, 384}})
    expect_our_kernels_wide_attention(tokens, width, {{0, 1}, {3, 130}, {tokens / 3, tokens}, {tokens - 257, tokens}});
}

TEST(Library, AttentionWithoutKeysMergesToNothing) {
  DeviceCtx dev;
  const Heads q = as_heads(dev.random({40, 256}, 1, DType::bf16), 128),
              k = as_heads(dev.random({64, 256}, 2, DType::bf16), 128);
  dev.poison_scratch();
  Scope scope(dev.c.scratch());
  const Partial none = attention(dev, q, k, k, {.keys = 0});
  EXPECT_EQ(values_of(none.o), std::vector<float>(40 * 256, 0.0f));
  EXPECT_EQ(values_of(none.lse), std::vector<float>(80, -INFINITY));
  const Partial some = attention(dev, q, k, k), before = attention(dev, q, k, k);
  merge_attention(dev, some, none);
  expect_same_bits(some.o, before.o);
}

// x, w in bf16; each output summed in fp64 at a few hundred places.
TEST(Library, ProductsMatchPlainSumsAtModelSizes) {
  for (const auto& [rows, in, out] :
       {std::array<int64_t, 3>{1000, 1536, 8960}, {4097, 5120, 5120}, {1, 256, 5120}, {513, 4096, 64}}) {
    SCOPED_TRACE(cat(rows, "x", in, "x", out));
    DeviceCtx dev;
    const Tensor x = dev.random({rows, in}, 1, DType::bf16), w = dev.random({out, in}, 2, DType::bf16, 0.05f),
                 b = dev.random({out}, 3, DType::bf16);
    const std::vector<float> left = values_of(x), right = values_of(w), bias = values_of(b);
    for (const DType type : {DType::bf16, DType::f32})
      for (const Act act : {Act::none, Act::gelu_tanh, Act::silu}) {
        Scope scope(dev.c.scratch());
        const Tensor y = linear(dev, x, w, b, {act, type, true});
        const std::vector<float> all = values_of(y);
        std::vector<double> want;
        std::vector<float> got;
        for (int64_t i = 0; i < 300; ++i) {
          const auto s = static_cast<size_t>(i * 7919 % rows), o = static_cast<size_t>(i * 104729 % out);
          double sum = bias[o];
          for (size_t k = 0; k < static_cast<size_t>(in); ++k)
            sum += double{left[s * static_cast<size_t>(in) + k]} * double{right[o * static_cast<size_t>(in) + k]};
          if (act == Act::silu) sum /= 1 + std::exp(-sum);
          if (act == Act::gelu_tanh)
            sum = 0.5 * sum * (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
          want.push_back(sum), got.push_back(all[s * static_cast<size_t>(out) + o]);
        }
        // The matrix units of a Hopper cut off, and do not round, what each of their steps of 16 terms adds to the
        // fp32 sum: up to 2^-23 of it a step and always towards zero, half of that on average. (A sum in bf16 or TF32
        // would lie two orders of magnitude further off.)
        const double cut_off = static_cast<double>(in) / 16 * 0x1p-24;
        expect_near(got, want, type == DType::bf16 ? 0x1p-8 : 2e-6 + cut_off);
      }
  }
}

TEST(Library, RowsOfAProductKeepTheirBitsAtAnyCount) {
  DeviceCtx dev;
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{1536, 4608}, {5120, 5120}, {8960, 1536}}) {
    const Tensor x = dev.random({5000, in}, 1, DType::bf16), w = dev.random({out, in}, 2, DType::bf16),
                 b = dev.random({out}, 3, DType::bf16);
    Scope scope(dev.c.scratch());
    const Tensor all = linear(dev, x, w, b);
    for (const auto& [from, to] :
         {std::pair<int64_t, int64_t>{0, 1}, {100, 177}, {1000, 2023}, {1000, 2024}, {2500, 5000}, {8, 4999}})
      expect_same_bits(linear(dev, x.rows(from, to), w, b), all.rows(from, to));
  }
}

struct Shapes {
  Shape x, w;
  ConvOptions o;
};
const ConvOptions same{1, 1, 1, 1};

// With and without something that is added.
void expect_the_unfolded_product(const Shapes& shapes) {
  const auto& [xs, ws, o] = shapes;
  for (const bool more : {false, true}) {
    SCOPED_TRACE(cat("x ", xs, " w ", ws, more ? " add" : ""));
    DeviceCtx dev;
    const Tensor x = dev.random(xs, 1, DType::bf16), w = dev.random(ws, 2, DType::bf16, 0.05f),
                 b = dev.random({ws[0]}, 3, DType::bf16);
    const Tensor wide_x = cast(dev, x, DType::f32), wide_w = cast(dev, w, DType::f32);
    const Tensor wide = conv(dev, wide_x, wide_w, b, o, {});
    const Tensor add = more ? dev.random(wide.shape(), 4, DType::bf16) : Tensor{};
    const Tensor want = more ? conv(dev, wide_x, wide_w, b, o, cast(dev, add, DType::f32)) : wide;
    dev.poison_scratch(16u << 20);
    const Tensor y = conv(dev, x, w, b, o, add);
    EXPECT_LE(relative_l2(y, want), 2.5e-3);
    expect_near(y, values_of(want), more ? 0x1p-7 : 0x1p-8);  // with `add` rounded twice
  }
}

TEST(Library, ConvolutionsMatchTheUnfoldedProduct) {
  for (const Shapes& shapes : {Shapes{{4, 18, 20, 96}, {96, 3, 3, 3, 96}, same},
                               {{3, 16, 16, 384}, {384, 3, 3, 3, 384}, same},
                               {{3, 12, 14, 16}, {384, 3, 3, 3, 16}, same},
                               {{3, 12, 14, 96}, {8, 3, 3, 3, 96}, same},
                               {{2, 9, 10, 192}, {192, 1, 2, 2, 192}, same},
                               {{1, 19, 20, 384}, {384, 1, 2, 2, 384}, same},
                               {{1, 16, 18, 96}, {96, 1, 3, 3, 96}, {0, 1, 0, 1, 2}},
                               {{5, 8, 8, 192}, {384, 3, 1, 1, 192}, {}},
                               {{2, 8, 8, 384}, {384, 1, 1, 1, 384}, {}},
                               {{3, 9, 20, 96}, {96, 3, 3, 3, 96}, {0, 1, 1, 0}}})
    expect_the_unfolded_product(shapes);
}

// ---- the same paths at sizes that memcheck and racecheck get through (run.sh) ---------------------------------------

TEST(Small, AttentionOfHeadsOf128) {  // Hopper: our own
  for (const Case& shape : {Case{1, 1, 1, 1, 1, 128}, {130, 193, 191, 2, 1, 128}, {64, 400, 400, 1, 1, 128}})
    expect_our_kernels_attention(shape, NAN);
}

TEST(Small, AttentionOfHeadsOf64) { expect_our_kernels_attention({70, 96, 77, 2, 2, 64}, NAN); }  // cuDNN

TEST(Small, WideAttention) { expect_our_kernels_wide_attention(150, 192, {{0, 1}, {3, 130}}); }

TEST(Small, Convolutions) {
  for (const Shapes& shapes : {Shapes{{3, 6, 8, 96}, {96, 3, 3, 3, 96}, same},
                               {{1, 5, 6, 192}, {192, 1, 2, 2, 192}, same},
                               {{1, 6, 8, 96}, {8, 1, 3, 3, 96}, {0, 1, 0, 1, 2}}})
    expect_the_unfolded_product(shapes);
}

// Printed last, so that a report shows what was chosen.
TEST(Library, ZzPlansInUse) {
  DeviceCtx dev;
  const Tensor x = dev.random({1024, 5120}, 1, DType::bf16), w = dev.random({5120, 5120}, 2, DType::bf16);
  linear(dev, x, w, {});
  const Heads h = as_heads(x, 128);
  attention(dev, h, h, h);
  // Every kind of convolution in the decoder of Wan 2.1, with and without the residual.
  struct Kind {
    int64_t in, out, kt, k;
    bool add;
  };
  for (const auto& [in, out, kt, k, more] :
       {Kind{16, 384, 3, 3, false}, Kind{384, 384, 3, 3, false}, Kind{384, 384, 3, 3, true},
        Kind{192, 384, 3, 3, false}, Kind{192, 192, 3, 3, false}, Kind{192, 192, 3, 3, true}, Kind{96, 96, 3, 3, false},
        Kind{96, 96, 3, 3, true}, Kind{384, 768, 3, 1, false}, Kind{384, 384, 1, 2, false}, Kind{192, 192, 1, 2, false},
        Kind{96, 3, 3, 3, false}}) {
    const int pad = k > 1 ? 1 : 0;
    const Tensor picture = dev.random({2 + kt, 32, 32, in}, 3, DType::bf16);
    const Tensor residual = more ? dev.random({3, 32, 32, out}, 6, DType::bf16) : Tensor{};
    conv(dev, picture, dev.random({out, kt, k, k, in}, 4, DType::bf16), dev.random({out}, 5, DType::bf16),
         {pad, pad, pad, pad}, residual);
  }
  const std::vector<std::string> plans = cuda_plans(*dev.backend);
  for (const std::string& line : plans) std::printf("plan | %s\n", line.c_str());
  EXPECT_GE(plans.size(), 5u);
}

}  // namespace
}  // namespace zoetrope
