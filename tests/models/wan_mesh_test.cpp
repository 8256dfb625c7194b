// The transformer on meshes against one rank: bits where nothing is added up in another order, bounds elsewhere, and
// what a forward sends.
#include "models/golden.h"
#include "models/meshes.h"
#include "support/words.h"

namespace zoetrope {
namespace {

using attn::Forms;
using attn::UlyssesForm;

// Nothing is merged over ranks and nothing summed: see docs/numerics.md.
bool exact(const Case& one) {
  return one.shape.tp == 1 && one.shape.ring == 1 && one.shape.cols == 1 && !one.forms.pipelined;
}

double rms(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += double{v} * double{v};
  return std::sqrt(sum / static_cast<double>(x.size()));
}

// Every rank has the whole velocity, the same bits, and they are those of one rank or within their bound.
void expect_parity(Toy toy, const std::vector<Case>& cases) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    toy.dtype = DType::f32;
    const std::vector<float> exactly = on_one_rank(toy);
    EXPECT_GT(rms(exactly), 0.2);  // of a result without size every bound would hold
    EXPECT_LT(rms(exactly), 5);
    toy.dtype = dtype;
    const std::vector<float> one = dtype == DType::f32 ? exactly : on_one_rank(toy);
    const std::vector<MeshRun> runs = on_meshes(toy, cases);
    for (size_t i = 0; i < cases.size(); ++i) {
      SCOPED_TRACE(cat(words_of(cases[i].shape, cases[i].forms), ", ", dtype));
      const std::vector<float>& got = runs[i][0].velocity;
      for (const RankRun& rank : runs[i]) EXPECT_TRUE(rank.velocity == got);
      if (exact(cases[i])) {
        EXPECT_TRUE(got == one) << "by " << relative_error(got, one);
      } else {
        const bool rounded = dtype == DType::bf16;
        EXPECT_LE(relative_error(got, one), rounded ? 0.05 : 1e-5);
        EXPECT_LE(relative_l2(got, one), rounded ? 1.5 * relative_l2(one, exactly) : 1e-5);
      }
    }
  }
}

const Shape five_tokens{1, 2, 10, 4};

TEST(WanOnMesh, UlyssesHasTheBitsOfOneRank) {
  for (const int ranks : {2, 3, 7})  // 24 heads: 12 each, 8 each, 4 4 4 3 3 3 3; 45 tokens: in slots of 23, 15, 7
    for (const UlyssesForm form : {UlyssesForm::separate, UlyssesForm::packed})
      expect_parity({}, {{{.ulysses = ranks}, {form}}});
}

TEST(WanOnMesh, FewerTokensThanRanks) {
  expect_parity({.latents = five_tokens},
                {{{.ulysses = 8}}, {{.ring = 8}}, {{.rows = 4, .cols = 2}}, {{.cfg = 2, .ring = 2, .ulysses = 2}}});
}

TEST(WanOnMesh, ContextStrategiesAndTheirNests) {
  const Forms pipelined{UlyssesForm::kv_packed, true};
  expect_parity({}, {{{.ring = 4}},
                     {{.rows = 2, .cols = 2}},
                     {{.rows = 2, .cols = 2}, pipelined},
                     {{.rows = 4, .cols = 1}},
                     {{.ring = 2, .ulysses = 2}},
                     {{.rows = 1, .cols = 2, .ulysses = 2}, pipelined},
                     {{.cfg = 2, .ulysses = 2}}});
}

// The feed-forward's 40 go in eights: 24 16 on two ranks, 16 16 8 on three, 16 8 8 8 on four.
TEST(WanOnMesh, TensorParallelAndItsNests) {
  expect_parity({}, {{{.tp = 2}}});
  expect_parity({}, {{{.tp = 3}}});
  expect_parity({}, {{{.tp = 4}},
                     {{.cfg = 2, .tp = 2}},
                     {{.tp = 2, .ulysses = 2}},
                     {{.tp = 2, .ulysses = 2}, {UlyssesForm::packed}},
                     {{.tp = 2, .ring = 2}},
                     {{.tp = 2, .rows = 1, .cols = 2}, {UlyssesForm::separate, true}}});
}

TEST(WanOnMesh, TensorParallelWithTwoOtherAxes) {
  expect_parity({.latents = five_tokens},
                {{{.cfg = 2, .tp = 2, .ulysses = 2}},
                 {{.tp = 2, .rows = 2, .cols = 2}},
                 {{.tp = 2, .ring = 2, .ulysses = 2}},
                 {{.tp = 2, .rows = 1, .cols = 2, .ulysses = 2}, {UlyssesForm::packed, true}}});
}

// Bytes a rank: docs/parallelism.md.
TEST(WanOnMesh, UlyssesSendsFourMessagesALayerAndGathersOnce) {
  const Toy toy;
  const Case one{{.cfg = 2, .ulysses = 4}};
  const int64_t slot = 12, head_bytes = slot * 6 * 6 * 4;  // 45 tokens on 4 ranks; 6 heads of 6 a message, fp32
  const int64_t back = head_bytes + slot * 6 * 4;          // the output takes its LSE along; both are multiples of 16
  const MeshRun run = on_meshes(toy, {one}).front();
  for (const RankRun& rank : run)
    EXPECT_EQ(sums(rank.log), (Sums{{{"ulysses", Verb::all_to_all}, {2 * 4, 2 * 3 * (3 * head_bytes + back)}},
                                    {{"sequence", Verb::all_gather}, {1, 3 * slot * 4 * 4 * 4}}}));
}

// A published Ulysses graph of 36 layers has two reduce-scatters at the entry, 108 all-to-alls (Q; K with V; output)
// and one gather at the exit. Here every rank holds the whole latents and takes its own patches, so nothing is sent at
// the entry; all packed, 72 remain.
TEST(WanOnMesh, UlyssesOf36LayersSendsNothingAtTheEntryAndGathersOnceAtTheExit) {
  Toy toy;
  toy.config.layers = 36;
  for (const auto& [form, exchanges] : {std::pair(UlyssesForm::kv_packed, 108), {UlyssesForm::packed, 72}})
    for (const int rank : {0, 3}) {
      std::vector<Verb> verbs;
      for (const Record& r : dry_log(toy, {{.ulysses = 4}, {form}}, rank)) verbs.push_back(r.verb);
      std::vector<Verb> expected(static_cast<size_t>(exchanges), Verb::all_to_all);
      expected.push_back(Verb::all_gather);
      EXPECT_EQ(verbs, expected);
    }
}

// Three sums a layer of [S', C], and of squares [2, S'] where queries and keys are made together, else [S'] twice, and
// [S'] in cross-attention. Two ranks: as many bytes as there are.
TEST(WanOnMesh, TensorParallelReducesFiveOrSixTimesALayer) {
  const Toy toy;
  const Sums alone = sums(dry_log(toy, {{.cfg = 2, .tp = 2}}, 3));
  EXPECT_EQ(alone, (Sums{{{"tp", Verb::all_reduce}, {2 * 5, 2 * 4 * (3 * 45 * 144 + 3 * 45)}}}));
  for (const UlyssesForm form : {UlyssesForm::separate, UlyssesForm::packed}) {
    const Sums nested = sums(dry_log(toy, {{.tp = 2, .ulysses = 2}, {form}}, 0));
    const int64_t calls = form == UlyssesForm::packed ? 5 : 6;
    EXPECT_EQ(nested.at({"tp", Verb::all_reduce}), std::pair(2 * calls, int64_t{2 * 4 * (3 * 23 * 144 + 3 * 23)}));
    EXPECT_EQ(nested.at({"sequence", Verb::all_gather}), std::pair(int64_t{1}, int64_t{23 * 4 * 4 * 4}));
  }
}

// The tables of docs/parallelism.md: Wan 14B at 720p, MiB a rank and layer, without and with the gather at the end.
TEST(WanOnMesh, SendsWhatTheDocumentSays) {
  Toy toy{.latents = {21, 90, 160, 16}, .dtype = DType::bf16, .config = {.layers = 1}};
  const auto mebibytes = [&](const Case& one, const std::string& axis) {
    int64_t bytes = 0;
    for (const Record& r : dry_log(toy, one, 0)) bytes += r.axis == axis ? r.bytes : 0;
    return static_cast<double>(bytes) / (1 << 20);
  };
  EXPECT_NEAR(mebibytes({{.tp = 2}}, "tp"), 4431, 0.5);
  EXPECT_NEAR(mebibytes({{.tp = 4}}, "tp"), 6646, 0.5);
  EXPECT_NEAR(mebibytes({{.tp = 2, .ulysses = 4}}, "tp"), 1108, 0.5);
  EXPECT_NEAR(mebibytes({{.tp = 2, .ulysses = 4}}, "ulysses"), 278, 0.5);
  EXPECT_NEAR(mebibytes({{.ulysses = 8}}, "ulysses"), 324, 0.5);
  EXPECT_NEAR(mebibytes({{.ulysses = 4}}, "sequence"), 13.8, 0.05);
  DryRank whole(device::traits()), half(device::traits());
  const auto weights = [&](DryRank& rank, const Mesh* mesh) {
    toy.config.layers = 40;
    nn::Random any(0);
    toy.model(rank.c, mesh, any);
    return static_cast<double>(rank.c.weights("transformer").used());
  };
  DryWorld dry(0, 2);
  const auto world = dry.comm();
  const Mesh mesh(*world, {.tp = 2});
  EXPECT_NEAR(weights(half, &mesh) / weights(whole, nullptr), 0.51, 0.005);
}

// The prompt's keys of all layers are normed by one sum.
TEST(WanOnMesh, APromptCostsTensorParallelRanksOneSum) {
  const Toy toy;
  DryWorld dry(0, 2);
  const auto world = dry.comm();
  const Mesh mesh(*world, {.tp = 2});
  DryRank counting(device::traits());
  nn::Random weights(7);
  const Text text = toy.model(counting.c, &mesh, weights).encode_text(counting.c, toy.context(counting.c), 9);
  EXPECT_EQ(text.kv.shape(), Shape({2, 512, 2 * 72}));
  EXPECT_EQ(sums(dry.log()), (Sums{{{"tp", Verb::all_reduce}, {1, 2 * 512 * 4}}}));
}

// What each rank reads of each tensor.
struct Counting : nn::Parameters {
  nn::Random weights{7};
  std::map<std::string, std::vector<nn::Slice>> reads;
  std::map<std::string, int64_t> numbers;

  const nn::Listing* listing() const override { return nullptr; }
  void read(const std::string& key, const Shape& shape, const nn::Slice& part, const Tensor& to) override {
    reads[key].push_back(part), numbers[key] += to.size();
    weights.read(key, shape, part, to);
  }
};

TEST(WanOnMesh, TensorParallelRanksReadTheirPartsAlone) {
  const Toy toy;
  std::array<Counting, 3> read;
  std::array<std::vector<nn::Entry>, 3> entries;
  std::array<size_t, 3> memory;
  Ranks(3).run([&](Ctx& c, Comm& world) {
    const Mesh mesh(world, {.tp = 3});
    const auto rank = static_cast<size_t>(world.rank());
    entries[rank] = toy.model(c, &mesh, read[rank]).entries();
    memory[rank] = c.weights("transformer").used();
  });
  const auto is_cut = [](const std::string& key) {
    if (key.find(".attn") != std::string::npos) return !key.ends_with("to_out.0.bias");
    return key.find(".ffn.") != std::string::npos && !key.ends_with("net.2.bias");
  };
  for (const nn::Entry& entry : entries[0]) {
    const std::string& key = entry.key;
    const int64_t all = read[0].numbers[key] + read[1].numbers[key] + read[2].numbers[key];
    const bool summed = key.ends_with("to_out.0.bias") || key.ends_with("ffn.net.2.bias");  // the first rank adds it
    EXPECT_EQ(all, (is_cut(key) || summed ? 1 : 3) * entry.shape.size()) << key;
    EXPECT_TRUE(!summed || read[0].numbers[key] == all) << key;
  }
  const auto part = [&](size_t rank, const std::string& key) {
    const nn::Slice slice = read[rank].reads.at("blocks.1." + key).at(0);
    return std::array<int64_t, 3>{slice.axis, slice.from, slice.to};
  };
  using Part = std::array<int64_t, 3>;
  EXPECT_EQ(part(1, "attn1.to_k.weight"), (Part{0, 48, 96}));  // heads 8 to 15, 6 wide
  EXPECT_EQ(part(2, "attn1.norm_q.weight"), (Part{0, 96, 144}));
  EXPECT_EQ(part(1, "attn2.to_out.0.weight"), (Part{1, 48, 96}));
  EXPECT_EQ(part(2, "ffn.net.0.proj.weight"), (Part{0, 32, 40}));
  EXPECT_EQ(part(1, "ffn.net.2.weight"), (Part{1, 16, 32}));
  EXPECT_TRUE(entries[1] == entries[0]);  // a checkpoint must be whole on each rank
  EXPECT_LT(memory[2], memory[0]);
}

TEST(WanOnMesh, DryRanksSendTheSame) {
  const Toy toy;
  const std::vector<Case> cases{{{.ring = 2, .ulysses = 2}},
                                {{.rows = 2, .cols = 2}},
                                {{.cfg = 2, .ulysses = 2}},
                                {{.tp = 2, .ulysses = 2}},
                                {{.tp = 4}}};
  const auto runs = on_meshes(toy, cases);
  for (size_t i = 0; i < cases.size(); ++i)
    for (size_t rank = 0; rank < 4; ++rank)
      EXPECT_TRUE(runs[i][rank].log == dry_log(toy, cases[i], static_cast<int>(rank)))
          << words_of(cases[i].shape, cases[i].forms);
}

TEST(WanOnMesh, ASecondLengthUsesTheSlotsOfTheFirst) {
  const Toy toy;
  const std::vector<float> want = on_one_rank(toy);
  Ranks(2).run([&](Ctx& c, Comm& world) {
    const Mesh mesh(world, {.ulysses = 2});
    nn::Random weights(7);
    const WanTransformer model = toy.model(c, &mesh, weights);
    const StepTable steps = model.steps(c, std::vector<float>{400});
    const Text text = model.encode_text(c, toy.context(c), 9);
    const auto forward = [&](const Shape& latents) {
      return model.forward(c, Toy{.latents = latents}.noise(c), steps, 0, text);
    };
    forward({4, 8, 10, 4});
    const size_t taken = c.exchange().used();
    EXPECT_EQ(values_of(forward(toy.latents)), want);
    EXPECT_EQ(c.exchange().used(), taken);
  });
}

// Layout padding is computed like tokens, from zeros: whoever looks finds numbers.
TEST(WanOnMesh, PaddingNeverBecomesNan) {
  const Toy toy{.latents = five_tokens};
  std::atomic<int> seen = 0, not_finite = 0;
  Ranks(8).run([&](Ctx& c, Comm& world) {
    for (const MeshShape& shape : {MeshShape{.ulysses = 8}, MeshShape{.tp = 2, .rows = 2, .cols = 2}}) {
      const Mesh mesh(world, shape, toy.heads());
      c.rank().tap = [&](Ctx&, std::string_view, const Tensor& x) {
        ++seen;
        for (const float value : values_of(x)) not_finite += !std::isfinite(value);
      };
      toy.forward(c, &mesh, {}, nullptr);
      c.rank().tap = nullptr;
      c.drop_weights("transformer");
    }
  });
  EXPECT_EQ(not_finite, 0);
  EXPECT_EQ(seen, 8 * 2 * (5 + 2 * 7));
}

// A recording made on one mesh may not be replayed on another.
TEST(WanOnMesh, SegmentsNameTheMesh) {
  struct Names : Segments {
    std::string all;
    void run(Ctx&, std::string_view key, const std::function<void()>& body) override { all += key, body(); }
  };
  const auto names_of = [](Ctx& c, Comm& world) {
    const Mesh mesh(world, {.ring = 2});
    auto names = std::make_unique<Names>();
    const Names& seen = *names;
    c.rank().segments = std::move(names);
    Toy().forward(c, &mesh, {}, nullptr);
    return seen.all;
  };
  DryWorld dry(0, 2);  // what it says may be part of a graph
  DryRank counting(device::traits());
  const std::string seen = names_of(counting.c, *dry.comm());
  for (const char* part :
       {"transformer.head [3, 6, 10, 4] fp32 cfg 1 x ring 2 ", "transformer.blocks [3, 6, 10, 4] fp32 cfg 1 x ring 2 ",
        "transformer.tail [3, 6, 10, 4] fp32 cfg 1 x ring 2 "})
    EXPECT_NE(seen.find(part), std::string::npos) << seen;
  // Rank threads wait for each other on the host: nothing of theirs is recorded.
  Ranks(2).run([&](Ctx& c, Comm& world) { EXPECT_EQ(names_of(c, world), ""); });
}

TEST(WanOnMesh, RefusesHeadsThatCannotBeShared) {
  const auto fault = [](int64_t heads, const MeshShape& shape) {
    Toy toy;
    toy.config.heads = heads;
    DryWorld dry(0, shape.world());
    const auto world = dry.comm();
    const Mesh mesh(*world, shape);
    DryRank counting;
    return words([&] { toy.forward(counting.c, &mesh, {}, nullptr); });
  };
  EXPECT_EQ(fault(3, {.ulysses = 4}), "transformer: cfg 1 x ulysses 4: ulysses 4 is more than the 3 heads");
  EXPECT_EQ(fault(6, {.tp = 4}), "transformer: cfg 1 x tp 4: tp 4 does not divide 6 heads and 6 key heads");
  EXPECT_EQ(fault(4, {.tp = 2, .ulysses = 3}),
            "transformer: cfg 1 x tp 2 x ulysses 3: ulysses 3 is more than the 2 heads of a tp rank");
  EXPECT_EQ(fault(48, {.tp = 48}), "transformer: cfg 1 x tp 48: more than the 40 numbers of ffn_dim");
}

// 24 heads: tp 1 2 3 4 6 8. All forms that make a difference.
struct WanSweep : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, WanSweep, testing::Values(1, 2, 3, 4, 6, 7, 8));

TEST_P(WanSweep, EveryLegalMesh) {
  const Toy toy;
  std::vector<Case> cases;
  for (const MeshShape& shape : legal_meshes(GetParam(), toy.heads()))
    for (const Forms& forms : attn::forms_of(shape)) cases.push_back({shape, forms});
  expect_parity(toy, cases);
}

}  // namespace
}  // namespace zoetrope
