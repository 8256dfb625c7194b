#include "attn/dense.h"

#include "support/cpu_ctx.h"
#include "support/words.h"

namespace zoetrope::attn {
namespace {

// Projections that exist already.
struct Ready : Source {
  Tensor q_, k_, v_;  // [S, N, D], [S, M, D]
  bool can_pack = false;

  Ready(CpuCtx& cpu, int64_t tokens, int64_t real, int64_t heads, int64_t key_heads, int64_t width) {
    geo = {heads, key_heads, width, tokens, real, DType::f32};
    q_ = cpu.random({tokens, heads, width}, 1);
    k_ = cpu.random({tokens, key_heads, width}, 2);
    v_ = cpu.random({tokens, key_heads, width}, 3);
  }
  Heads give(Ctx& c, const Tensor& x, const Heads* want) const {
    if (want) copy_heads(c, as_heads(x, geo.width), *want);
    return want ? *want : as_heads(x, geo.width);
  }
  Heads q(Ctx& c, const Heads* want) override { return give(c, q_, want); }
  Heads k(Ctx& c, const Heads* want) override { return give(c, k_, want); }
  Heads v(Ctx& c, const Heads* want) override { return give(c, v_, want); }
  bool packed(Ctx& c, const Heads& q, const Heads& k, const Heads& v) override {
    if (can_pack) give(c, q_, &q), give(c, k_, &k), give(c, v_, &v);
    return can_pack;
  }
};

TEST(Dense, IsAttentionOverTheRealTokens) {
  CpuCtx cpu;
  Ready source(cpu, 9, 7, 4, 2, 8);
  const Partial got = Dense().run(cpu.c, source);
  const auto real = [&](const Tensor& x) { return slice(as_heads(x, 8), 0, 7); };
  const Partial want = attention(cpu.c, as_heads(source.q_, 8), real(source.k_), real(source.v_));
  EXPECT_EQ(got.o.shape(), Shape({9, 4, 8}));
  EXPECT_EQ(got.lse.shape(), Shape({4, 9}));
  expect_near(got.o, values_of(want.o), 1e-6);
  expect_near(got.lse, values_of(want.lse), 1e-6);
}

TEST(Dense, TakesProjectionsTogetherOrOneByOne) {
  CpuCtx cpu;
  Ready source(cpu, 5, 5, 3, 3, 8);
  const Partial apart = Dense().run(cpu.c, source);
  source.can_pack = true;
  const Partial together = Dense().run(cpu.c, source);
  expect_same_bits(apart.o, together.o);
  expect_same_bits(apart.lse, together.lse);
}

TEST(Dense, RefusesMoreRealKeysThanThereAre) {
  CpuCtx cpu;
  Ready source(cpu, 5, 6, 2, 2, 8);
  EXPECT_EQ(words([&] { Dense().run(cpu.c, source); }), "attention: 6 real keys of 5");
}

}  // namespace
}  // namespace zoetrope::attn
