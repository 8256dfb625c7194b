// What a dry mesh counts: the published recipe and the shipped ones to the byte, and what live ranks take.
#include "plan/mesh_cost.h"

#include <sys/resource.h>

#include "pipeline/toy_runs.h"
#include "support/ranks.h"
#include "support/words.h"

namespace zoetrope {
namespace {

const ModelSource& a14b() {
  static const ModelSource source = open_random_model("wan2.2-t2v-a14b", 0, nullptr);
  return source;
}

MeshCost shipped(const std::string& file, int num_frames) {
  const Settings settings = read_settings(ZOETROPE_SOURCE_DIR "/configs/" + file);
  EXPECT_EQ(settings.num_frames, std::vector{num_frames});
  Ask ask;
  ask.width = settings.resolutions.at(0).width, ask.height = settings.resolutions.at(0).height;
  ask.num_frames = num_frames, ask.frames_policy = "floor";
  return mesh_cost(a14b(), resolve(ask, model_info(a14b()), 0), cpu_traits(), DType::bf16, DType::bf16,
                   layout_of(settings));
}

// docs/parallelism.md: Wan A14B in bf16, 40 layers of 40 heads of 128. s: tokens of a rank.
constexpr int64_t layers = 40, width = 128, half = 2, single = 4;
int64_t chunk(int64_t s, int64_t heads) { return s * heads * width * half + single * s * heads; }  // multiples of 16
Traffic ulysses(int64_t ranks, int64_t s) {
  const int64_t heads = 40 / ranks;
  return {2 * layers, layers * (ranks - 1) * (s * 3 * heads * width * half + chunk(s, heads))};
}
Traffic velocity(int64_t ranks, int64_t s) { return {1, (ranks - 1) * s * 64 * single}; }
Traffic guidance(int64_t latent_frames) { return {1, latent_frames * 90 * 160 * 16 * single}; }

// ---- recipes ------------------------------------------------------------------------------------------------------

TEST(MeshCost, OfThePublishedRecipeFor72Ranks) {
  const MeshCost cost = shipped("wan22_t2v_bf16_gb200_nvl72.yml", 80);
  EXPECT_EQ(cost.layout.text(), "cfg 2 x attn2d 3x3 x ulysses 4, packed, vae 8 by width");
  EXPECT_EQ(cost.request.num_frames, 77);
  EXPECT_EQ(cost.request.latent_frames(), 20);
  EXPECT_EQ(cost.tokens, 72'000);
  ASSERT_EQ(cost.ranks.size(), 72u);

  const int64_t s = 72'000 / 36, gathered = 4 * s, heads = 10;  // of a rank; behind Ulysses
  const Collectives want{
      {"cfg", {{Verb::all_gather, guidance(20)}}},
      {"ulysses", {{Verb::all_to_all, ulysses(4, s)}}},
      {"col", {{Verb::all_gather, {layers, layers * 2 * gathered * 2 * heads * width * half}}}},
      {"row",
       {{Verb::all_gather, {layers, layers * 2 * gathered * heads * width * half}},
        {Verb::all_to_all, {layers, layers * 2 * chunk(gathered, heads)}}}},
      {"sequence", {{Verb::all_gather, velocity(36, s)}}},
  };
  for (const RankCost& rank : cost.ranks) EXPECT_EQ(rank.forward, want);
}

TEST(MeshCost, OfThePublishedRecipeSaysWhoHoldsWhat) {
  const MeshCost cost = shipped("wan22_t2v_bf16_gb200_nvl72.yml", 80);
  for (size_t r = 0; r < 72; ++r) {
    const RankCost& rank = cost.ranks[r];
    EXPECT_EQ(rank.memory.weights.contains("text_encoder"), r == 0 || r == 36) << r;  // the first of each half
    EXPECT_EQ(rank.memory.weights.contains("vae"), r < 8) << r;
    EXPECT_EQ(rank.memory.weights.at("transformer"), rank.memory.weights.at("transformer_2"));
    EXPECT_EQ(rank.memory.weights.at("transformer"), 28'635'875'584);
    EXPECT_GT(rank.memory.request, 0);
    EXPECT_GT(rank.memory.scratch, 0);
  }
  // A message of Ulysses, sent and received; queries, keys with values and two messages of output of Attention2D; the
  // velocity.
  const int64_t s = 2000, gathered = 8000;
  const int64_t slots = 2 * 4 * s * 30 * width * half + 3 * gathered * 30 * width * half + 2 * 3 * chunk(gathered, 10) +
                        72'000 * 64 * single;
  for (const size_t rank : {8, 36, 71}) EXPECT_EQ(cost.ranks[rank].memory.exchange, slots);  // of those without a VAE
}

TEST(MeshCost, OfTheRecipesForOneToEightRanks) {
  const auto file = [](int ranks) { return cat("wan22_t2v_", ranks, "gpu.yml"); };
  for (const int ranks : {1, 2, 4, 8}) {
    const MeshCost cost = shipped(file(ranks), 81);
    ASSERT_EQ(cost.ranks.size(), static_cast<size_t>(ranks));
    EXPECT_EQ(cost.tokens, 75'600);
    Collectives want;
    if (ranks > 1) want["cfg"][Verb::all_gather] = guidance(21);
    if (const int64_t u = ranks / 2; u > 1) {
      want["ulysses"][Verb::all_to_all] = ulysses(u, 75'600 / u);
      want["sequence"][Verb::all_gather] = velocity(u, 75'600 / u);
    }
    for (const RankCost& rank : cost.ranks) EXPECT_EQ(rank.forward, want) << ranks;
    EXPECT_NEAR(cost.ranks[0].forward_flops * std::max(1, ranks / 2), 6.522e15, 1e12);
  }
}

TEST(MeshCost, TakesNoMemoryForWeights) {
  shipped("wan22_t2v_8gpu.yml", 81);
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  EXPECT_LT(use.ru_maxrss, 1 << 20);  // KiB; the weights are 67 GiB
}

// ---- live ranks ---------------------------------------------------------------------------------------------------

struct OnMesh : testing::TestWithParam<MeshShape> {};

TEST_P(OnMesh, LiveRanksTakeWhatDryOnesCount) {
  const MeshShape& shape = GetParam();
  const ModelSource source = toy_source("wan-a14b");
  Ask ask;
  ask.prompt = "a cat";
  const Request request = toy_request(source, ask);
  const MeshCost cost = mesh_cost(source, request, cpu_traits(), DType::f32, DType::f32, {shape, {}});
  EXPECT_EQ(cost.tokens, 36);
  std::vector<RankCost> live(static_cast<size_t>(shape.world()));
  Ranks(shape.world()).run([&](Ctx& c, Comm& world) {
    const Mesh mesh(world, shape, mesh_heads(source));
    const ModelSource own = toy_source("wan-a14b");
    TextToVideo pipeline(c, own, DType::f32, DType::f32, {}, &mesh);
    const std::vector<int32_t> longest(WanConfig::text_rows, 1);
    Frames frames;
    const RunFacts facts = pipeline.run(c, request, scheduler_config(own, request), {longest, longest}, {}, frames);
    RankCost& rank = live[static_cast<size_t>(world.rank())];
    for (const auto& [component, part] : own.parts)
      if (const size_t bytes = c.weights(component).peak())
        rank.memory.weights[component] = static_cast<int64_t>(bytes);
    rank.memory.request = static_cast<int64_t>(c.request().peak());
    rank.memory.scratch = static_cast<int64_t>(c.scratch().peak());
    rank.memory.exchange = static_cast<int64_t>(c.exchange().peak());
    rank.forward = facts.forward;
  });
  for (size_t r = 0; r < live.size(); ++r) {
    EXPECT_EQ(live[r].memory.weights, cost.ranks[r].memory.weights) << r;
    EXPECT_EQ(live[r].memory.request, cost.ranks[r].memory.request) << r;
    EXPECT_EQ(live[r].memory.scratch, cost.ranks[r].memory.scratch) << r;
    EXPECT_EQ(live[r].memory.exchange, cost.ranks[r].memory.exchange) << r;
    EXPECT_EQ(live[r].forward, cost.ranks[r].forward) << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Toys, OnMesh,
                         testing::Values(MeshShape{}, MeshShape{.cfg = 2, .ulysses = 2},
                                         MeshShape{.rows = 2, .cols = 2, .vae = 2, .vae_split = VaeSplit::height},
                                         MeshShape{.cfg = 2, .ring = 3, .vae = 3}, MeshShape{.tp = 2, .ulysses = 2}),
                         [](const auto& info) {
                           std::string name = text_of(info.param);
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

// ---- in words -----------------------------------------------------------------------------------------------------

TEST(MeshCost, RefusesWhatTheModelDoesNotAllow) {
  const ModelSource source = toy_source("wan-a14b");
  const Request request = toy_request(source, {});
  const auto said = [&](const MeshShape& shape) {
    return words([&] { mesh_cost(source, request, cpu_traits(), DType::f32, DType::f32, {shape, {}}); });
  };
  EXPECT_EQ(said({.ring = 2, .rows = 2}),
            "ring 2 and attn2d 2x1 both cut the context: choose one; layouts for 2: cfg 2, cfg 1 x ulysses 2, cfg 1 x "
            "tp 2, cfg 1 x ring 2, cfg 1 x attn2d 1x2, cfg 1 x attn2d 2x1");
  EXPECT_EQ(said({.ring = 5000}), "cost: 5000 ranks; at most 4096 are looked at");
}

TEST(MeshCost, PutsRanksThatTakeTheSameTogether) {
  MeshCost cost = shipped("wan22_t2v_4gpu.yml", 81);
  cost.ranks[1] = cost.ranks[3] = cost.ranks[0];
  const OrderedJson facts = as_json(cost);
  EXPECT_EQ(facts.at("mesh"), "cfg 2 x ulysses 2, packed");
  EXPECT_EQ(facts.at("world"), 4);
  ASSERT_EQ(facts.at("ranks").size(), 2u);
  EXPECT_EQ(facts.at("ranks")[0].at("ranks"), "0-1, 3");
  EXPECT_EQ(facts.at("ranks")[1].at("ranks"), "2");
  EXPECT_EQ(facts.at("ranks")[0].at("forward").at("ulysses").at("all_to_all"),
            OrderedJson({{"count", 80}, {"bytes", ulysses(2, 37'800).bytes}}));
  EXPECT_EQ(facts.at("ranks")[0].at("memory").at("total"), cost.ranks[0].memory.total());
  const std::string text = as_text(cost);
  for (const char* words :
       {"cost on cfg 2 x ulysses 2, packed = 4 ranks: 1280x720, 81 frames, 40 steps, bf16, prompts at their longest\n",
        "75,600 (21 latent frames), 37,800 a rank\n", "\n  collectives of a forward and a rank\n    cfg ",
        "ulysses   all_to_all      80    31,086,720,000 bytes (29.0 GiB)\n", "\n    0-1, 3 "})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\nin\n" << text;
}

}  // namespace
}  // namespace zoetrope
