// One request on a mesh of rank threads: the frames of one rank, and what a rank alone finds out is known to all.
#include <atomic>

#include "comm/agree.h"
#include "comm/dry/world.h"
#include "core/dry_rank.h"
#include "pipeline/toy_runs.h"
#include "support/ranks.h"

namespace zoetrope {

inline void PrintTo(const MeshShape& shape, std::ostream* out) { *out << text_of(shape); }

namespace {

// What one rank of a run saw.
struct Seen {
  Frames frames;
  RunFacts facts;
  std::map<std::string, const Region*> weights;  // by component, what is not cut
  size_t exchange = 0;                           // bytes at most
};

struct Setup {
  std::string kind = "wan";
  DType dtype = DType::f32;
  MeshShape shape;
};

// Runs the requests one after the other on one pipeline a rank; a job that throws on any rank is the whole run's error.
std::vector<Seen> run_on(const Setup& setup, const std::vector<Ask>& asks,
                         const std::function<void(Rank&, int)>& change = {}) {
  std::vector<Seen> seen(static_cast<size_t>(setup.shape.world()));
  Ranks(setup.shape.world()).run([&](Ctx& c, Comm& world) {
    const Mesh mesh(world, setup.shape);
    const ModelSource source = toy_source(setup.kind);
    TextToVideo pipeline(c, source, setup.dtype, setup.dtype, {}, &mesh);
    if (change) change(c.rank(), world.rank());
    Seen& mine = seen[static_cast<size_t>(world.rank())];
    for (const Ask& ask : asks) {
      mine.frames = {};
      mine.facts = run_toy(c, pipeline, source, toy_request(source, ask), {}, mine.frames);
    }
    for (const auto& [component, slices] : c.rank().weights) mine.weights[component] = slices.begin()->second.get();
    mine.exchange = c.exchange().peak();
  });
  return seen;
}

Ask small_ask() {
  Ask ask;
  ask.prompt = "a cat", ask.seed = 3;
  return ask;
}

std::string name_of(const MeshShape& shape) {
  std::string name = text_of(shape);
  std::ranges::replace(name, ' ', '_');
  return cat(name, "_vae_", shape.vae_ranks(), shape.vae_split == VaeSplit::height ? "_by_height" : "");
}

std::string mesh_kind_type(const testing::TestParamInfo<std::tuple<MeshShape, std::string, DType>>& info) {
  const auto& [shape, kind, dtype] = info.param;
  return cat(name_of(shape), kind == "wan" ? "_one_expert_" : "_two_experts_", name(dtype));
}

// ---- the frames of one rank ---------------------------------------------------------------------------------------

class BitEqual : public testing::TestWithParam<std::tuple<MeshShape, std::string, DType>> {};

TEST_P(BitEqual, ToOneRank) {
  const auto& [shape, kind, dtype] = GetParam();
  const auto one = run_on({kind, dtype, {}}, {small_ask()});
  const auto many = run_on({kind, dtype, shape}, {small_ask()});
  EXPECT_EQ(many[0].frames.bytes, one[0].frames.bytes);
  EXPECT_EQ(many[0].frames.got, 9);
  for (size_t r = 1; r < many.size(); ++r) EXPECT_EQ(many[r].frames.got, 0);  // only rank 0 feeds its sink
}

INSTANTIATE_TEST_SUITE_P(Halves, BitEqual,
                         testing::Combine(testing::Values(MeshShape{.cfg = 2, .vae = 1}),
                                          testing::Values("wan", "wan-a14b"), testing::Values(DType::f32, DType::bf16)),
                         mesh_kind_type);
INSTANTIATE_TEST_SUITE_P(Meshes, BitEqual,
                         testing::Combine(testing::Values(MeshShape{.ulysses = 2}, MeshShape{.cfg = 2},
                                                          MeshShape{.ulysses = 3, .vae_split = VaeSplit::height},
                                                          MeshShape{.cfg = 2, .ulysses = 2, .vae = 2},
                                                          MeshShape{.cfg = 2, .ulysses = 2}),
                                          testing::Values("wan-a14b"), testing::Values(DType::f32)),
                         mesh_kind_type);

// Latents after every step, relative to their largest value.
class Near : public testing::TestWithParam<MeshShape> {};

TEST_P(Near, ToOneRank) {
  const auto latents = [](const MeshShape& shape) {
    std::vector<float> last;
    run_on({.shape = shape}, {small_ask()}, [&](Rank& rank, int r) {
      if (r == 0)
        rank.tap = [&](Ctx&, std::string_view name, const Tensor& x) {
          if (name == "latents.1") last = values_of(x);
        };
    });
    return last;
  };
  expect_near(latents(GetParam()), latents({}), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Meshes, Near,
                         testing::Values(MeshShape{.ring = 2}, MeshShape{.rows = 2, .cols = 2}, MeshShape{.tp = 2},
                                         MeshShape{.cfg = 2, .tp = 2}, MeshShape{.tp = 2, .ulysses = 2},
                                         MeshShape{.rows = 1, .cols = 2, .ulysses = 2}),
                         [](const auto& info) { return name_of(info.param); });

// ---- guidance -----------------------------------------------------------------------------------------------------

const MeshShape halves{.cfg = 2, .vae = 1};

TEST(Guidance, TakesOneCollectiveAStepOnTwoHalves) {
  const auto seen = run_on({.shape = halves}, {small_ask()});
  const int64_t bytes = 3 * 6 * 8 * 16 * 4;  // of a prediction
  for (const Seen& rank : seen) {
    ASSERT_EQ(rank.facts.forward.size(), 1u);
    const auto& verbs = rank.facts.forward.at("cfg");
    ASSERT_EQ(verbs.size(), 1u);
    EXPECT_EQ(verbs.at(Verb::all_gather).calls, 1);
    EXPECT_EQ(verbs.at(Verb::all_gather).bytes, bytes);
  }
}

// Public report: a rank waits for ever for a branch that guidance 1 leaves out.
TEST(Guidance, Of1OrLessMakesOneStreamOnBothHalvesWithoutACollective) {
  for (const double scale : {1.0, 0.0}) {
    Ask ask = small_ask();
    ask.guidance_scale = scale;
    const auto one = run_on({}, {ask});
    const auto two = run_on({.shape = halves}, {ask});
    EXPECT_EQ(two[0].frames.bytes, one[0].frames.bytes);
    for (const Seen& rank : two) EXPECT_TRUE(rank.facts.forward.empty());
  }
}

TEST(Guidance, StandsInTheDryRunToo) {
  for (const int rank : {0, 1}) {
    DryRank dry(device::traits());
    DryWorld world(rank, 2);
    const auto comm = world.comm();
    const Mesh mesh(*comm, halves);
    const ModelSource source = toy_source("wan");
    TextToVideo pipeline(dry.c, source, DType::f32, DType::f32, {}, &mesh);
    Frames frames;
    const RunFacts facts = run_toy(dry.c, pipeline, source, toy_request(source, small_ask()), {}, frames);
    EXPECT_EQ(facts.forward, run_on({.shape = halves}, {small_ask()})[0].facts.forward);
  }
}

// ---- text ---------------------------------------------------------------------------------------------------------

TEST(Prompts, AreEncodedOnceForManyRequests) {
  Ask other = small_ask();
  other.prompt = "a dog", other.negative_prompt = "rain";
  for (const MeshShape& shape : {MeshShape{}, halves}) {
    const auto fresh = run_on({.shape = shape}, {small_ask()});
    std::vector<int> encoded(static_cast<size_t>(shape.world()));
    const auto later =
        run_on({.shape = shape}, {small_ask(), small_ask(), other, small_ask(), small_ask()}, [&](Rank& rank, int r) {
          rank.tap = [&encoded, r](Ctx&, std::string_view name, const Tensor&) {
            encoded[static_cast<size_t>(r)] += name == "embedding";  // the encoder's first tap
          };
        });
    EXPECT_EQ(later[0].frames.bytes, fresh[0].frames.bytes);
    // Prompts and negative ones for the first, third and fourth request.
    EXPECT_EQ(encoded, shape.world() == 1 ? std::vector{6} : (std::vector{3, 3}));
  }
}

TEST(Weights, LieOnTheRanksThatUseThem) {
  const auto seen = run_on({.shape = halves}, {small_ask()});
  EXPECT_EQ(seen[0].weights.size(), 3u);
  EXPECT_TRUE(seen[1].weights.contains("text_encoder"));  // of its half
  EXPECT_FALSE(seen[1].weights.contains("vae"));
  const auto sequence = run_on({.shape = {.ulysses = 2, .vae = 1}}, {small_ask()});
  EXPECT_TRUE(sequence[0].weights.contains("text_encoder"));
  EXPECT_FALSE(sequence[1].weights.contains("text_encoder"));  // it gets the vectors
  EXPECT_TRUE(sequence[1].weights.contains("transformer"));
}

// Experts take turns, so one set of slots serves both; a dry rank knows them to the byte.
TEST(Exchange, OfTwoExpertsIsThatOfOne) {
  Ask ask = small_ask();
  ask.negative_prompt = "rain", ask.guidance_scale = 4;  // whatever the recipe of one or two says
  const auto exchange = [&ask](const MeshShape& shape, const ModelSource& source, int number) {
    DryRank dry(device::traits());
    DryWorld world(number, shape.world());
    const auto comm = world.comm();
    const Mesh mesh(*comm, shape);
    TextToVideo pipeline(dry.c, source, DType::f32, DType::f32, {}, &mesh);
    Frames frames;
    run_toy(dry.c, pipeline, source, toy_request(source, ask), {}, frames);
    return dry.c.exchange().peak();
  };
  const ModelSource two = toy_source("wan-a14b");
  ModelSource one = toy_source("wan-a14b");
  one.parts.erase("transformer_2");
  for (const MeshShape& shape : {MeshShape{.ulysses = 2, .vae = 1},
                                 {.cfg = 2, .ring = 2, .vae = 2},
                                 {.rows = 2, .cols = 2, .vae = 4},
                                 {.tp = 2, .ulysses = 2, .vae = 1}}) {
    SCOPED_TRACE(text_of(shape));
    const auto seen = run_on({.kind = "wan-a14b", .shape = shape}, {ask});
    for (int rank = 0; rank < shape.world(); ++rank) {
      const size_t bytes = seen[static_cast<size_t>(rank)].exchange;
      EXPECT_GT(bytes, 0u);
      EXPECT_EQ(exchange(shape, two, rank), bytes);
      EXPECT_EQ(exchange(shape, one, rank), bytes);
    }
  }
}

// ---- what only one rank knows -------------------------------------------------------------------------------------

void spoil(Rank& rank, const std::string& component) {
  for (auto& [name, regions] : rank.weights)
    if (name == component) {
      spoil(*regions.at(""));
    }
}

// Each rank's words for a run in which one rank's weights are spoiled.
std::vector<std::string> words_of(const MeshShape& shape, int spoiled, const std::string& component) {
  std::vector<std::string> said(static_cast<size_t>(shape.world()));
  std::atomic<int> agreed = 0;
  Ranks(shape.world()).run([&](Ctx& c, Comm& world) {
    const Mesh mesh(world, shape);
    const ModelSource source = toy_source("wan");
    TextToVideo pipeline(c, source, DType::f32, DType::f32, {}, &mesh);
    if (world.rank() == spoiled) spoil(c.rank(), component);
    Frames frames;
    try {
      run_toy(c, pipeline, source, toy_request(source, small_ask()), {}, frames);
    } catch (const AgreedError& error) {
      said[static_cast<size_t>(world.rank())] = error.what();
      ++agreed;
    }
    world.barrier(c);  // nobody was left waiting: the group works on
    EXPECT_EQ(c.request().used(), 0u);
  });
  EXPECT_EQ(agreed, shape.world());
  return said;
}

TEST(WhatIsNotFinite, IsSeenAlikeByAllRanks) {
  for (const int rank : {0, 1}) {
    const auto text = words_of(halves, rank, "text_encoder");
    EXPECT_TRUE(
        text[0].starts_with(cat("text_encode: the ", rank == 0 ? "prompt" : "negative prompt", " embedding holds ")))
        << text[0];
    EXPECT_EQ(text[0], text[1]);
    const auto step = words_of(halves, rank, "transformer");
    EXPECT_TRUE(step[0].starts_with("denoise: step 1 of 2 (transformer) holds ")) << step[0];
    EXPECT_EQ(step[0], step[1]);
  }
  const auto chunk = words_of(halves, 0, "vae");
  EXPECT_TRUE(chunk[0].starts_with("vae_decode: latent frame ")) << chunk[0];
  EXPECT_EQ(chunk[0], chunk[1]);  // the rank that decodes nothing says so, too
}

}  // namespace
}  // namespace zoetrope
