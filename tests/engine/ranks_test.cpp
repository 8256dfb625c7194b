// An engine of several rank threads: the frames of one rank, and whatever ends a job, the next is a fresh engine's.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/engine.h"
#include "engine/jobs.h"
#include "ops/cpu/backend.h"
#include "pipeline/facts.h"
#include "plan/mesh_cost.h"

namespace zoetrope {
namespace {

using std::chrono::milliseconds;

EngineConfig on_ranks(const MeshShape& shape, const std::string& kind = "wan") {
  EngineConfig config = toy_config(kind);
  config.ranks = shape.world();
  config.layout = {shape, {}};
  return config;
}

std::string name_of(const MeshShape& shape) {
  std::string name = cat(text_of(shape), "_vae_", shape.vae_ranks());
  std::ranges::replace(name, ' ', '_');
  return name;
}

const MeshShape halves{.cfg = 2, .vae = 1};

// ---- frames -------------------------------------------------------------------------------------------------------

struct OnMesh : testing::TestWithParam<MeshShape> {};

TEST_P(OnMesh, GivesTheFramesOfOneRank) {
  EXPECT_EQ(fresh_hash(on_ranks(GetParam(), "wan-a14b"), small_ask()), fresh_hash(toy_config("wan-a14b"), small_ask()));
}

TEST_P(OnMesh, ReportsWhatItRanOn) {
  const MeshShape& shape = GetParam();
  Engine engine(on_ranks(shape));
  const Json report = run(engine, small_ask());
  EXPECT_EQ(report.at("ranks"), shape.world());
  EXPECT_EQ(report.at("mesh"), text_of(shape));
  EXPECT_EQ(report.at("peak_memory_bytes").size(), static_cast<size_t>(shape.world()));
  for (const Json& rank : report.at("peak_memory_bytes")) {
    EXPECT_GT(rank.at("scratch"), 0);
    EXPECT_GT(rank.at("weights").at("transformer"), 0);
  }
  // What a dry run of rank 0 counts for a prediction is what was issued.
  const Request request = engine.resolve(small_ask());
  const MeshCost cost = mesh_cost(engine.source(), request, cpu_traits(), DType::f32, DType::f32, {shape, {}});
  EXPECT_EQ(report.at("collectives"), Json(as_json(cost.ranks[0].forward)));
  EXPECT_EQ(report.at("collectives").contains("cfg"), shape.cfg == 2);
}

INSTANTIATE_TEST_SUITE_P(Exact, OnMesh,
                         testing::Values(halves, MeshShape{.ulysses = 2}, MeshShape{.cfg = 2, .ulysses = 2}),
                         [](const auto& info) { return name_of(info.param); });

struct NearMesh : testing::TestWithParam<MeshShape> {};

TEST_P(NearMesh, GivesNearlyTheFramesOfOneRank) {
  Engine one(toy_config()), many(on_ranks(GetParam()));
  const auto want = frames_of(one, small_ask()), got = frames_of(many, small_ask());
  ASSERT_EQ(got.size(), want.size());
  size_t far = 0;
  for (size_t i = 0; i < want.size(); ++i) far += std::abs(got[i] - want[i]) > 1;
  EXPECT_EQ(far, 0u);
}

INSTANTIATE_TEST_SUITE_P(Summed, NearMesh,
                         testing::Values(MeshShape{.ring = 2}, MeshShape{.rows = 1, .cols = 2}, MeshShape{.tp = 2},
                                         MeshShape{.cfg = 2, .tp = 2}),
                         [](const auto& info) { return name_of(info.param); });

TEST(Ranks, AreLaidOutByTheRuleWhereNobodySaysHow) {
  EngineConfig config = toy_config();
  config.ranks = 2;
  EXPECT_EQ(text_of(Engine(config).layout().shape), "cfg 2");
  config.guidance = 1;
  EXPECT_EQ(text_of(Engine(config).layout().shape), "cfg 1 x ulysses 2");
}

TEST(Ranks, ThatMakeNoLegalMeshAreRefusedWithThoseThatDo) {
  EngineConfig config = on_ranks({.cfg = 2, .ulysses = 2});
  config.ranks = 2;
  EXPECT_EQ(
      words([&] { Engine engine(config); }),
      "cfg 2 x ulysses 2 = 4 ranks, but 2 were started; layouts for 2: cfg 2, cfg 1 x ulysses 2, cfg 1 x tp 2, cfg "
      "1 x ring 2, cfg 1 x attn2d 1x2, cfg 1 x attn2d 2x1");
  config = on_ranks({.ring = 2, .rows = 1, .cols = 2});
  EXPECT_TRUE(words([&] { Engine engine(config); }).starts_with("ring 2 and attn2d 1x2 both cut the context"));
}

TEST(Ranks, SayWhenGuidanceWastesAHalf) {
  Ask ask = small_ask();
  ask.guidance_scale = 1;
  Engine engine(on_ranks(halves));
  const Json report = run(engine, ask);
  EXPECT_NE(report.at("warnings").dump().find("without guidance both CFG halves compute the same"), std::string::npos);
  EXPECT_EQ(frames_hash(report), fresh_hash(toy_config(), ask));
}

// Each rank has what it needs and no more; what several need lies there once.
TEST(Ranks, ShareWeights) {
  for (const auto& [shape, regions] :
       {std::pair{MeshShape{.ulysses = 4, .vae = 1}, 1u}, {{.tp = 2, .ulysses = 2, .vae = 1}, 3u}}) {
    std::vector<Rank*> ranks(4);
    EngineConfig config = on_ranks(shape);
    config.prepare = [&](Rank& rank, int number) { ranks[static_cast<size_t>(number)] = &rank; };
    Engine engine(config);
    run(engine, small_ask());
    std::set<const Region*> transformers;
    for (const Rank* rank : ranks)
      for (const auto& [slice, region] : rank->weights.at("transformer")) transformers.insert(region.get());
    EXPECT_EQ(transformers.size(), regions);  // whole tensors, and the parts of each tensor parallel rank
  }
}

// ---- failing ------------------------------------------------------------------------------------------------------

// Does something to one rank the first time that it comes to a named intermediate.
EngineConfig with_fault(EngineConfig config, int victim, const std::string& at, std::function<void(Ctx&)> fault) {
  const auto armed = std::make_shared<std::atomic<bool>>(true);
  config.prepare = [=](Rank& rank, int number) {
    if (number == victim)
      rank.tap = [=](Ctx& c, std::string_view name, const Tensor&) {
        if (name == at && armed->exchange(false)) fault(c);
      };
  };
  return config;
}

struct Fault {
  MeshShape shape;
  int victim;
  const char* at;
};

struct Failing : testing::TestWithParam<Fault> {};

TEST_P(Failing, OnOneRankNamesItAndLeavesNoTrace) {
  const auto& [shape, victim, at] = GetParam();
  Engine engine(with_fault(on_ranks(shape), victim, at, [](Ctx&) { fail(Code::out_of_memory, "no room"); }));
  const auto job = engine.submit(small_ask(), std::make_unique<Kept>());
  const std::string said = words([&] { job->wait(); });
  EXPECT_TRUE(said.starts_with(cat("rank ", victim, ": ")) && said.find("no room") != std::string::npos) << said;
  EXPECT_EQ(job->state(), JobState::failed);
  EXPECT_EQ(frames_hash(engine, small_ask()), fresh_hash(toy_config(), small_ask()));
}

INSTANTIATE_TEST_SUITE_P(Stages, Failing,
                         testing::Values(Fault{halves, 1, "negative prompt embedding"}, Fault{halves, 1, "block.1"},
                                         Fault{halves, 0, "latents.0"}, Fault{halves, 0, "video.1"},
                                         Fault{{.cfg = 2, .ulysses = 2}, 3, "block.0.attn1"},
                                         Fault{{.ulysses = 3}, 1, "video.1"}, Fault{{.ulysses = 3}, 2, "latents.1"}),
                         [](const auto& info) {
                           std::string name =
                               cat(name_of(info.param.shape), "_rank_", info.param.victim, "_", info.param.at);
                           for (char& c : name)
                             if (c == ' ' || c == '.') c = '_';
                           return name;
                         });

TEST(Failing, OfTheSinkIsRankZeros) {
  Engine engine(on_ranks(halves));
  const auto full = std::make_exception_ptr(Error(Code::invalid, "the disk is full"));
  const auto job = engine.submit(small_ask(), std::make_unique<Kept>(2, full));
  EXPECT_EQ(words([&] { job->wait(); }), "rank 0: the disk is full");
  EXPECT_EQ(frames_hash(engine, small_ask()), fresh_hash(toy_config(), small_ask()));
}

TEST(Failing, OfMemoryOnOneRankNamesItsStageAndHelp) {
  EngineConfig config = on_ranks(halves);
  config.prepare = [](Rank& rank, int number) {
    const size_t room = number == 1 ? 64u << 10 : 64u << 20;
    rank.scratch = std::make_unique<Region>("scratch", host_pages(64u << 20), room);
  };
  Engine engine(config);
  for (int i = 0; i < 2; ++i) {  // the second time, too: nothing hangs
    const std::string said = words([&] { engine.submit(small_ask(), std::make_unique<Kept>())->wait(); });
    EXPECT_TRUE(said.starts_with("rank 1: text_encode: memory: scratch needs ")) << said;
    EXPECT_TRUE(said.ends_with("; a smaller size, fewer frames or --dtype bf16 needs less")) << said;
  }
}

TEST(Failing, ThroughAStallNamesWhoIsMissing) {
  EngineConfig config = with_fault(on_ranks(halves), 1, "block.0.attn1", [](Ctx& c) {
    while (!c.rank().stop.stop_requested()) std::this_thread::sleep_for(milliseconds(5));
  });
  config.waits.set(Wait::step, milliseconds(400));
  Engine engine(config);
  const Stopwatch watch;
  const std::string said = words([&] { engine.submit(small_ask(), std::make_unique<Kept>())->wait(); });
  EXPECT_TRUE(said.starts_with("axis cfg: all_gather ")) << said;
  EXPECT_TRUE(said.ends_with("rank 1 is not there after 0.4 s (waits of class step)")) << said;
  EXPECT_LT(watch.seconds(), 30);  // the limit of an unknown step is 120 s
}

// ---- cancelling ---------------------------------------------------------------------------------------------------

struct Moment {
  MeshShape shape;
  Stage stage;
  int done;
};

struct Cancelled : testing::TestWithParam<Moment> {};

TEST_P(Cancelled, OnSeveralRanksLeavesNoTrace) {
  const TempFolder folder;
  Engine engine(on_ranks(GetParam().shape));
  std::promise<std::shared_ptr<Job>> made;
  const auto self = made.get_future().share();
  Ask ask = small_ask();
  ask.steps = 3;
  const auto job = engine.submit(ask, open_output(folder / "x.mp4", programs, ""), [&, self](const Progress& now) {
    if (now.stage == GetParam().stage && now.done == GetParam().done) self.get()->cancel();
  });
  made.set_value(job);
  EXPECT_EQ(words([&] { job->wait(); }), "cancelled");
  EXPECT_EQ(job->state(), JobState::cancelled);
  EXPECT_EQ(folder.count(), 0u);
  EXPECT_EQ(frames_hash(engine, ask), fresh_hash(on_ranks(GetParam().shape), ask));
}

INSTANTIATE_TEST_SUITE_P(
    Stages, Cancelled,
    testing::Values(Moment{halves, Stage::load, 1}, Moment{halves, Stage::text_encode, 0},
                    Moment{halves, Stage::denoise, 1}, Moment{halves, Stage::vae_decode, 1},
                    Moment{halves, Stage::encode, 0}, Moment{{.cfg = 2, .ulysses = 2}, Stage::denoise, 2},
                    Moment{{.ulysses = 2}, Stage::vae_decode, 1}, Moment{{.ring = 3, .vae = 1}, Stage::denoise, 1}),
    [](const auto& info) { return cat(name_of(info.param.shape), "_", name(info.param.stage), "_", info.param.done); });

TEST(Cancelling, FromOutsideAtAnyMomentLeavesNoTrace) {
  Engine engine(on_ranks({.cfg = 2, .ulysses = 2}));
  const std::string want = fresh_hash(toy_config(), small_ask());
  for (int i = 0; i < 12; ++i) {
    const auto job = engine.submit(small_ask(), std::make_unique<Kept>());
    std::this_thread::sleep_for(milliseconds(7 * i));
    job->cancel();
    words([&] { job->wait(); });
    EXPECT_NE(job->state(), JobState::failed);
  }
  EXPECT_EQ(frames_hash(engine, small_ask()), want);
}

TEST(Ranks, LeaveWithTheEngine) {
  std::shared_ptr<Job> running, waiting;
  std::promise<void> begun;
  {
    Engine engine(on_ranks({.ulysses = 3, .vae = 1}));
    running = engine.submit(small_ask(), std::make_unique<Kept>(), [&](const Progress& now) {
      if (now.stage == Stage::denoise && now.done == 1) begun.set_value();
    });
    begun.get_future().wait();
    waiting = engine.submit(small_ask(), std::make_unique<Kept>());
  }
  EXPECT_EQ(words([&] { waiting->wait(); }), "cancelled: the engine was closed");
  EXPECT_NE(running->state(), JobState::running);
}

}  // namespace
}  // namespace zoetrope
