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
  Heads get(Ctx&, Projection which) override {
    return as_heads(which == Projection::q ? q_ : which == Projection::k ? k_ : v_, geo.width);
  }
  void put(Ctx& c, Projection which, const HeadParts& to) override { copy_heads(c, get(c, which), to); }
  bool put_all(Ctx& c, const HeadParts& q, const HeadParts& k, const HeadParts& v) override {
    if (can_pack) put(c, Projection::q, q), put(c, Projection::k, k), put(c, Projection::v, v);
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
