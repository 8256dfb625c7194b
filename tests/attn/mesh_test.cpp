// Every strategy, alone and nested, against one rank.
#include "attn/attn2d.h"
#include "attn/ring.h"
#include "attn/sharded.h"
#include "comm/dry/world.h"
#include "support/words.h"

namespace zoetrope::attn {
namespace {

// Keys and values are gathered whole or the heads are: nothing is merged, so nothing may differ.
bool exact(const Case& a) { return a.shape.ring == 1 && a.shape.cols == 1 && !a.forms.pipelined; }

// Looks at each case with what it gave.
void on_all_meshes(const Problem& p, int ranks, const std::function<void(const Case&, const Result&)>& look) {
  const auto cases = cases_of(ranks, p.mesh_heads());
  const auto results = on_meshes(p, cases);
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(words_of(cases[i].shape, cases[i].forms));
    look(cases[i], results[i]);
  }
}

void expect_parity(const Problem& p, int ranks) {
  const Result want = dense(p);
  on_all_meshes(p, ranks, [&](const Case& one, const Result& got) {
    if (exact(one)) {
      EXPECT_EQ(got.o, want.o);
      EXPECT_EQ(got.lse, want.lse);
    } else {
      expect_near(got.o, want.o, 1e-5);
      expect_near(got.lse, want.lse, 1e-5);
    }
  });
}

struct OnMeshes : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, OnMeshes, testing::Values(1, 2, 3, 4, 6, 7, 8));

TEST_P(OnMeshes, HeadsThatDoNotDivideAndAnOddLength) { expect_parity({43, 10, 10, 16}, GetParam()); }
TEST_P(OnMeshes, GroupedQueries) { expect_parity({37, 12, 4, 32}, GetParam()); }
TEST_P(OnMeshes, MoreRanksThanKeyHeads) { expect_parity({24, 8, 2, 16}, GetParam()); }
TEST_P(OnMeshes, FewerTokensThanRanks) { expect_parity({5, 8, 8, 16}, GetParam()); }
TEST_P(OnMeshes, OneToken) { expect_parity({1, 8, 8, 16}, GetParam()); }
TEST_P(OnMeshes, SeveralTilesOfKeys) { expect_parity({389, 8, 4, 16}, GetParam()); }

double relative(const std::vector<float>& a, const std::vector<float>& b) {
  double off = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    off += d * d, size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(off / size);
}

void expect_bf16_parity(Problem p, int ranks) {
  const Result one = dense(p);
  p.dtype = DType::f32;
  const Result exactly = dense(p);
  p.dtype = DType::bf16;
  on_all_meshes(p, ranks, [&](const Case& mesh, const Result& got) {
    if (exact(mesh)) {
      EXPECT_EQ(got.o, one.o);
      EXPECT_EQ(got.lse, one.lse);
    } else {
      EXPECT_LE(relative(got.o, one.o), 1.5 * relative(one.o, exactly.o));
      expect_near(got.o, one.o, 0.05);
      expect_near(got.lse, one.lse, 1e-5);
    }
  });
}

TEST_P(OnMeshes, Bf16IsExactOrWithinItsBound) { expect_bf16_parity({61, 8, 4, 16, DType::bf16}, GetParam()); }
// Heads as wide as the released models': on a GPU the library's attention instead of our own.
TEST_P(OnMeshes, WideHeadsInBf16) { expect_bf16_parity({150, 8, 8, 128, DType::bf16}, GetParam()); }

// 40 heads on 3 ranks: 14, 13, 13.
TEST(OnMesh, FortyHeadsOnThreeRanks) {
  const Problem p{20, 40, 40, 16};
  for (const Forms& forms : forms_of({.ulysses = 3})) EXPECT_EQ(on_mesh(p, {.ulysses = 3}, forms).o, dense(p).o);
}

TEST(OnMesh, SourcesThatCannotPackGiveTheSame) {
  const Problem p{13, 6, 3, 16};
  Ranks(3).run([&](Ctx& c, Comm& world) {
    const Mesh mesh(world, {.ulysses = 3});
    const auto attention = make_attention(c, mesh, {.ulysses = UlyssesForm::packed});
    Shard source(c, p, 3, world.rank());
    attention->reserve(source.geo);
    const Partial together = attention->run(c, source);
    source.can_pack = false;
    const Partial apart = attention->run(c, source);
    expect_same_bits(together.o.rows(0, source.geo.real), apart.o.rows(0, source.geo.real));
  });
}

// A rank whose shard is padding alone: nothing of it is attended, nothing of it becomes NaN anywhere else.
TEST(OnMesh, ARankWithoutRealTokensTakesPart) {
  const Problem p{5, 8, 8, 16};
  for (const MeshShape& shape : {MeshShape{.ring = 8}, MeshShape{.rows = 4, .cols = 2}, MeshShape{.ulysses = 8}})
    for (const float value : on_mesh(p, shape).o) EXPECT_TRUE(std::isfinite(value)) << text_of(shape);
}

// Keys that every rank holds are attended by the layer itself and merged: each counts once on every mesh.
TEST(OnMesh, ReplicatedKeysCountOnceWhenTheLayerMergesThem) {
  const Problem p{22, 8, 4, 16}, replicated{9, 8, 4, 16};
  const auto extra = [&](Ctx& c) { return Shard(c, replicated, 1, 0); };  // the same on every rank
  Result want = empty_result(p);
  CpuCtx cpu(1);
  {
    Shard own(cpu.c, p, 1, 0), more = extra(cpu.c);
    const Tensor all = cpu.c.empty({p.tokens + replicated.tokens, 2 * p.key_heads, p.width}, DType::f32);
    const Heads rows = as_heads(all, p.width);
    for (auto& [source, from] : {std::pair<Shard&, int64_t>(own, 0), {more, p.tokens}}) {
      const Heads part = slice(rows, from, from + source.geo.tokens);
      const Heads k = slice_heads(part, 0, p.key_heads), v = slice_heads(part, p.key_heads, 2 * p.key_heads);
      source.put(cpu.c, Projection::k, k), source.put(cpu.c, Projection::v, v);
    }
    place(attention(cpu.c, own.get(cpu.c, Projection::q), slice_heads(rows, 0, p.key_heads),
                    slice_heads(rows, p.key_heads, 2 * p.key_heads)),
          own.geo, want);
  }
  for (const MeshShape& shape : {MeshShape{.ulysses = 4}, MeshShape{.ring = 4}, MeshShape{.rows = 2, .cols = 2},
                                 MeshShape{.ring = 2, .ulysses = 2}}) {
    Result got = empty_result(p);
    Ranks(4).run([&](Ctx& c, Comm& world) {
      const Mesh mesh(world, shape);
      const auto strategy = make_attention(c, mesh);
      Shard source(c, p, 4, world.rank()), more = extra(c);
      strategy->reserve(source.geo);
      const Partial whole = strategy->run(c, source);
      merge_attention(
          c, whole, attention(c, source.get(c, Projection::q), more.get(c, Projection::k), more.get(c, Projection::v)));
      place(whole, source.geo, got);
    });
    expect_near(got.o, want.o, 1e-5);
    expect_near(got.lse, want.lse, 1e-5);
  }
}

// A projection is never laid down first and copied into a message: who norms and rotates writes each rank's heads
// there.
TEST(OnMesh, UlyssesHasItsMessagesWrittenByTheSource) {
  struct Direct : Shard {
    using Shard::Shard;
    Heads get(Ctx&, Projection) override { fail(Code::invalid, "a copy was asked for"); }
  };
  const Problem p{24, 10, 10, 16};
  for (const UlyssesForm form : {UlyssesForm::separate, UlyssesForm::kv_packed, UlyssesForm::packed})
    Ranks(4).run([&](Ctx& c, Comm& world) {
      const Mesh mesh(world, {.ulysses = 4});
      const auto strategy = make_attention(c, mesh, {form});
      Direct source(c, p, 4, world.rank());
      strategy->reserve(source.geo);
      EXPECT_NO_THROW(strategy->run(c, source));
    });
}

// Slots are made for the longest sequence; a shorter one uses their beginning.
TEST(OnMesh, OneAttentionServesEveryLengthUpToTheReserved) {
  const Problem longest{43, 8, 4, 16};
  for (const MeshShape& shape : sequence_meshes(4, longest.mesh_heads())) {
    SCOPED_TRACE(text_of(shape));
    for (const int64_t tokens : {43, 5, 18}) {
      Problem p = longest;
      p.tokens = tokens;
      Result got = empty_result(p);
      Ranks(4).run([&](Ctx& c, Comm& world) {
        const Mesh mesh(world, shape);
        const auto attention = make_attention(c, mesh);
        Shard first(c, longest, 4, mesh.sequence_index()), source(c, p, 4, mesh.sequence_index());
        attention->reserve(first.geo);
        attention->run(c, first);
        const size_t taken = c.exchange().used();
        attention->reserve(source.geo);
        EXPECT_EQ(c.exchange().used(), taken);
        place(attention->run(c, source), source.geo, got);
      });
      EXPECT_EQ(got.o, on_mesh(p, shape).o);
    }
  }
}

std::string refusal(int ranks, const std::function<void(Ctx& c, Comm& world)>& body) {
  return words([&] { Ranks(ranks).run(body); });
}

TEST(OnMesh, RefusesMoreRanksThanHeads) {
  DryWorld dry(3, 8);
  EXPECT_EQ(words([&] {
              CpuCtx cpu(1);
              const auto world = dry.comm();
              Ulysses(cpu.c, *world, std::make_unique<Dense>()).reserve({.heads = 6, .key_heads = 6, .width = 16});
            }),
            "ulysses: 8 ranks but only 6 heads");
}

TEST(OnMesh, RefusesToRunBeforeSlotsAreReserved) {
  const std::string text = refusal(2, [](Ctx& c, Comm& world) {
    Ring ring(c, world, std::make_unique<Dense>());
    Shard source(c, {8, 2, 2, 16}, 2, world.rank());
    ring.run(c, source);
  });
  EXPECT_EQ(text.substr(8),  // behind "rank 0: ", or 1
            "exchange: [4, 4, 16] fp32 needs a slot of 1024 bytes, 0 were reserved; reserve() comes first");
}

TEST(OnMesh, RefusesALengthThatDoesNotFitItsPlace) {
  const std::string text = refusal(2, [](Ctx& c, Comm& world) {
    const Mesh mesh(world, {.ulysses = 2});
    const auto attention = make_attention(c, mesh);
    Shard source(c, {7, 2, 2, 16}, 2, world.rank());
    attention->reserve(source.geo);
    source.geo.real = 4;  // true of rank 0 alone
    attention->run(c, source);
  });
  EXPECT_EQ(text, "rank 1: ulysses: tokens [4, 8) of a sequence of 7 hold 3 real ones, but 4 were given");
}

TEST(OnMesh, RanksOfDifferentLengthAreCaughtBeforeDataMoves) {
  const std::string text = refusal(2, [](Ctx& c, Comm& world) {
    const Mesh mesh(world, {.ring = 2});
    const auto attention = make_attention(c, mesh);
    Shard source(c, {world.rank() ? 9 : 7, 2, 2, 16}, 2, world.rank());
    attention->reserve(source.geo);
    attention->run(c, source);
  });
  for (const char* part :
       {"rank 1 calls exchange of ", "[5, 4, 16] fp32", "but rank 0 exchange of ", "[4, 4, 16] fp32"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace
}  // namespace zoetrope::attn
