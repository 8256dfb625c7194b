// What each strategy sends, counted by dry ranks: verbs, calls and bytes as docs/parallelism.md has them.
#include "attn/sharded.h"
#include "comm/dry/world.h"
#include "core/dry_rank.h"
#include "ops/cpu/backend.h"

namespace zoetrope::attn {
namespace {

struct DryRun {
  std::vector<Record> log;
  size_t exchange_bytes = 0;
};

// One layer on rank `number` of a mesh that does not exist.
DryRun dry_run(const Problem& p, const MeshShape& shape, const Forms& forms, int number) {
  DryWorld dry(number, shape.world());
  const auto world = dry.comm();
  const Mesh mesh(*world, shape, p.mesh_heads());
  DryRank rank(device::traits());
  Ctx& c = rank.c;
  const auto attention = make_attention(c, mesh, forms);
  Shard source(c, p, shape.sequence(), mesh.sequence_index());
  attention->reserve(source.geo);
  const size_t reserved = c.exchange().used();
  attention->run(c, source);
  EXPECT_EQ(c.exchange().used(), reserved);  // nothing is taken while it runs
  return {dry.log(), reserved};
}

struct Sum {
  std::string axis;
  Verb verb;
  int64_t calls, bytes;
  bool operator==(const Sum&) const = default;
};

void PrintTo(const Sum& s, std::ostream* out) {
  *out << s.axis << ' ' << name(s.verb) << ' ' << s.calls << " calls, " << s.bytes << " bytes";
}

// In the order of issue; neighbours of one axis and verb together.
std::vector<Sum> sums(const std::vector<Record>& log) {
  std::vector<Sum> all;
  for (const Record& r : log) {
    if (all.empty() || all.back().axis != r.axis || all.back().verb != r.verb) all.push_back({r.axis, r.verb, 0, 0});
    ++all.back().calls, all.back().bytes += r.bytes;
  }
  return all;
}

int64_t sixteens(int64_t bytes) { return (bytes + 15) / 16 * 16; }

// docs/parallelism.md, "Attention strategies". s: local tokens; n, m: query and key heads; d: width; b: bytes a number.
struct Formula {
  int64_t s, n, m, d, b;

  int64_t chunk(int64_t heads) const { return sixteens(s * heads * d * b) + sixteens(4 * s * heads); }
  int64_t inputs(int64_t ranks, int64_t heads) const { return (ranks - 1) * s * heads * d * b; }
  int64_t output(int64_t ranks, int64_t heads) const { return (ranks - 1) * chunk(heads); }
};

std::vector<Sum> expected(const Problem& p, const MeshShape& shape, const Forms& forms, int number) {
  const int64_t u = shape.ulysses, r = shape.r(), c = shape.c();
  Formula f{padded_tokens(p.tokens, shape.sequence()) / shape.sequence(), p.heads, p.key_heads, p.width,
            bytes_of(p.dtype)};
  std::vector<Sum> all;
  Sum back{};
  if (u > 1) {
    const HeadSpread heads = spread_heads(p.heads, p.key_heads, shape.ulysses);
    const int64_t sent = f.inputs(u, heads.q_slot + 2 * heads.kv_slot);
    const int64_t calls = forms.ulysses == UlyssesForm::separate ? 3 : forms.ulysses == UlyssesForm::packed ? 1 : 2;
    all.push_back({"ulysses", Verb::all_to_all, calls, sent});
    back = {"ulysses", Verb::all_to_all, 1, f.output(u, heads.q_slot)};
    const HeadShare own = heads.ranks[static_cast<size_t>(place_of(shape, number).ulysses)];
    f.s *= u, f.n = own.q_count, f.m = own.kv_count;
  }
  if (shape.ring > 1) all.push_back({"ring", Verb::exchange, r - 1, f.inputs(r, 2 * f.m)});
  if (shape.ring == 1 && r > 1) all.push_back({"col", Verb::all_gather, 1, f.inputs(r, 2 * f.m)});
  if (c > 1) all.push_back({"row", Verb::all_gather, 1, f.inputs(c, f.n)});
  if (c > 1) all.push_back({"row", Verb::all_to_all, 1, f.output(c, f.n)});
  if (u > 1 && all.size() == 1)
    ++all[0].calls, all[0].bytes += back.bytes;
  else if (u > 1)
    all.push_back(back);
  return all;
}

std::vector<Record> on_axis(const std::vector<Record>& log, const std::string& axis) {
  std::vector<Record> some;
  std::ranges::copy_if(log, std::back_inserter(some), [&](const Record& r) { return r.axis == axis; });
  return some;
}

struct Traffic : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Traffic, testing::Values(1, 2, 3, 4, 6, 7, 8, 16, 72));

TEST_P(Traffic, IsWhatTheFormulasSayToTheByte) {
  for (const Problem& p : {Problem{1003, 40, 40, 16}, Problem{997, 32, 8, 32, DType::bf16}, Problem{5, 8, 4, 16}})
    for (const MeshShape& shape : sequence_meshes(GetParam(), p.mesh_heads()))
      for (const Forms& forms : forms_of(shape))
        for (const int rank : {0, GetParam() / 2, GetParam() - 1}) {
          SCOPED_TRACE(cat(words_of(shape, forms), ", rank ", rank));
          EXPECT_EQ(sums(dry_run(p, shape, forms, rank).log), expected(p, shape, forms, rank));
        }
}

TEST_P(Traffic, IsTheSameForAllRanksOfACommunicator) {
  const Problem p{1003, 40, 8, 16};
  for (const MeshShape& shape : sequence_meshes(GetParam(), p.mesh_heads()))
    for (const Forms& forms : forms_of(shape)) {
      SCOPED_TRACE(words_of(shape, forms));
      std::vector<DryRun> runs;
      for (int r = 0; r < shape.world(); ++r) runs.push_back(dry_run(p, shape, forms, r));
      for (int r = 0; r < shape.world(); ++r) {
        const auto rank = static_cast<size_t>(r);
        EXPECT_EQ(runs[rank].exchange_bytes, runs[0].exchange_bytes);
        for (const auto& [axis, label] :
             {std::pair(Axis::ulysses, "ulysses"), {Axis::row, "row"}, {Axis::col, shape.ring > 1 ? "ring" : "col"}}) {
          const auto first = static_cast<size_t>(group_of(shape, axis, r).front());
          EXPECT_TRUE(on_axis(runs[rank].log, label) == on_axis(runs[first].log, label)) << label << ", rank " << r;
        }
      }
    }
}

TEST(Traffic, OfLiveRanksIsThatOfDryOnes) {
  const Problem p{43, 10, 5, 16};
  for (const MeshShape& shape : sequence_meshes(6, p.mesh_heads()))
    for (const Forms& forms : forms_of(shape)) {
      std::vector<std::vector<Record>> logs(6);
      Ranks(6).run([&](Ctx& c, Comm& world) {
        const Mesh mesh(world, shape, p.mesh_heads());
        const auto attention = make_attention(c, mesh, forms);
        Shard source(c, p, shape.sequence(), mesh.sequence_index());
        attention->reserve(source.geo);
        world.session().log = &logs[static_cast<size_t>(world.rank())];
        attention->run(c, source);
        world.session().log = nullptr;
      });
      for (int r = 0; r < 6; ++r)
        EXPECT_TRUE(logs[static_cast<size_t>(r)] == dry_run(p, shape, forms, r).log) << words_of(shape, forms);
    }
}

// 36 layers of a grouped-query model, 32 query heads on 8 key heads: 108 all-to-alls in the published form, no other
// verb, and K with V weigh half of Q.
TEST(Traffic, OfGroupedQueriesIsThreeExchangesALayerAndNothingElse) {
  const Problem p{1003, 32, 8, 128, DType::bf16};
  int64_t calls = 0;
  for (int layer = 0; layer < 36; ++layer)
    for (const Record& r : dry_run(p, {.ulysses = 4}, {UlyssesForm::kv_packed}, 1).log)
      calls += r.verb == Verb::all_to_all && r.axis == "ulysses" ? 1 : 1000;
  EXPECT_EQ(calls, 108);
  const auto log = dry_run(p, {.ulysses = 4}, {UlyssesForm::kv_packed}, 1).log;
  EXPECT_EQ(2 * log[1].bytes, log[0].bytes);
}

// The table of docs/parallelism.md: Wan 14B at 720p, MiB a rank and layer.
TEST(Traffic, FallsWithTheRanksAsTheStrategyPromises) {
  const Problem p{75600, 40, 40, 128, DType::bf16};
  const auto mebibytes = [&](const MeshShape& shape) {
    int64_t bytes = 0;
    for (const Record& r : dry_run(p, shape, {}, 0).log) bytes += r.bytes;
    return (bytes + (1 << 19)) >> 20;
  };
  EXPECT_EQ(mebibytes({.ulysses = 4}), 556);
  EXPECT_EQ(mebibytes({.ulysses = 16}), 208);
  EXPECT_EQ(mebibytes({.ring = 4}), 1107);
  EXPECT_EQ(mebibytes({.ring = 16}), 1384);
  EXPECT_EQ(mebibytes({.ring = 64}), 1454);
  EXPECT_EQ(mebibytes({.rows = 2, .cols = 2}), 741);
  EXPECT_EQ(mebibytes({.rows = 4, .cols = 4}), 556);
  EXPECT_EQ(mebibytes({.rows = 8, .cols = 8}), 324);
  EXPECT_EQ(mebibytes({.rows = 3, .cols = 3, .ulysses = 4}), 226);
}

}  // namespace
}  // namespace zoetrope::attn
