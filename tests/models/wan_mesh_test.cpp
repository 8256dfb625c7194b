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
      SCOPED_TRACE(cat(words_of(cases[i]), ", ", dtype));
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

TEST(WanOnMesh, DryRanksSendTheSame) {
  const Toy toy;
  const std::vector<Case> cases{{{.ring = 2, .ulysses = 2}}, {{.rows = 2, .cols = 2}}, {{.cfg = 2, .ulysses = 2}}};
  const auto runs = on_meshes(toy, cases);
  for (size_t i = 0; i < cases.size(); ++i)
    for (size_t rank = 0; rank < 4; ++rank)
      EXPECT_TRUE(same(runs[i][rank].log, dry_log(toy, cases[i], static_cast<int>(rank)))) << words_of(cases[i]);
}

TEST(WanOnMesh, ASecondLengthUsesTheSlotsOfTheFirst) {
  const Toy toy;
  const std::vector<float> want = on_one_rank(toy);
  Ranks(2).run([&](Ctx& c, Comm& world) {
    const Mesh mesh(world, {.ulysses = 2});
    nn::Random weights(7);
    const WanTransformer model(c, toy.config, weights, DType::f32, "transformer", &mesh);
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

// A recording made on one mesh may not be replayed on another.
TEST(WanOnMesh, SegmentsNameTheMesh) {
  struct Names : Segments {
    std::string all;
    void run(Ctx&, std::string_view key, const std::function<void()>& body) override { all += key, body(); }
  };
  Ranks(2).run([&](Ctx& c, Comm& world) {
    const Mesh mesh(world, {.ring = 2});
    auto names = std::make_unique<Names>();
    const Names& seen = *names;
    c.rank().segments = std::move(names);
    Toy().forward(c, &mesh, {}, nullptr);
    for (const char* part : {"transformer.head [3, 6, 10, 4] fp32 cfg 1 x ring 2 ",
                             "transformer.blocks [3, 6, 10, 4] fp32 cfg 1 x ring 2 ",
                             "transformer.tail [3, 6, 10, 4] fp32 cfg 1 x ring 2 "})
      EXPECT_NE(seen.all.find(part), std::string::npos) << seen.all;
  });
}

TEST(WanOnMesh, RefusesMoreUlyssesRanksThanHeads) {
  Toy toy;
  toy.config.heads = 3;
  DryWorld dry(0, 4);
  const auto world = dry.comm();
  const Mesh mesh(*world, {.ulysses = 4});
  DryRank counting;
  EXPECT_EQ(words([&] { toy.forward(counting.c, &mesh, {}, nullptr); }),
            "transformer: cfg 1 x ulysses 4: ulysses 4 is more than the 3 heads");
}

}  // namespace
}  // namespace zoetrope
