// Declared shapes: a request of one of them finds all that a later request finds, and what cannot be is said before.
#include "engine/warm_up.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/jobs.h"

namespace zoetrope {
namespace {

// 64x48, 5 frames: declared as [height, width], and as a length that is read as 5.
EngineConfig declaring(EngineConfig config) {
  config.resolutions = {{48, 64}};
  config.num_frames = {8};
  return config;
}

Ask ask_for(const std::string& prompt) {
  Ask ask = small_ask();
  ask.steps.reset();  // the recipe's: warming up takes fewer
  ask.prompt = prompt;
  return ask;
}

// The reports of a job's progress, "load 1/3".
std::vector<std::string> progress_of(Engine& engine, const Ask& ask, Json* report = nullptr) {
  std::vector<std::string> seen;
  const auto job = engine.submit(ask, std::make_unique<Kept>(), [&](const Progress& now) {
    seen.push_back(cat(name(now.stage), ' ', now.done, '/', now.total, now.note));
  });
  const Json made = job->wait();
  if (report) *report = made;
  return seen;
}

// What the job itself took; of a GPU others take memory, too.
Json own_memory(const Json& report) {
  Json memory = report.at("peak_memory_bytes");
  for (Json& rank : memory) rank.erase("device");
  return memory;
}

struct WarmUp : testing::TestWithParam<const char*> {};

TEST_P(WarmUp, MakesTheFirstRequestLikeALaterOne) {
  Engine engine(declaring(toy_config(GetParam())));
  std::vector<std::string> notes;
  engine.warm_up({}, [&](const Progress& now) {
    if (!now.note.empty()) notes.push_back(now.note);
  });
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0], "warm-up: 64x48, 5 frames");
  EXPECT_TRUE(notes[1].starts_with("memory: all weights stay, at most ")) << notes[1];

  const int64_t dry_runs = engine.dry_runs().made();
  Json first, later;
  const auto first_progress = progress_of(engine, ask_for("a cat"), &first);
  run(engine, ask_for("a dog"));  // so that the same prompt has to be encoded again
  EXPECT_EQ(first_progress, progress_of(engine, ask_for("a cat"), &later));
  EXPECT_EQ(std::ranges::count(first_progress, "load 1/1"), 0);
  EXPECT_EQ(engine.dry_runs().made(), dry_runs);
  EXPECT_EQ(first.at("flops").at("total"), later.at("flops").at("total"));  // the negative prompt's vectors are there
  EXPECT_EQ(own_memory(first), own_memory(later));
  EXPECT_EQ(frames_hash(first), fresh_hash(toy_config(GetParam()), ask_for("a cat")));
}

INSTANTIATE_TEST_SUITE_P(Toys, WarmUp, testing::Values("wan", "wan-a14b"),
                         [](const auto& info) { return std::string(info.param) == "wan" ? "one_expert" : "two"; });

TEST(WarmingUp, RunsEachExpertAndStandsInTheReport) {
  std::map<std::string, int> seen;
  EngineConfig config = declaring(toy_config("wan-a14b"));
  config.resolutions.push_back({64, 64});
  config.num_frames = {5, 8, 9};  // two of them are the same
  config.tap = [&](Ctx&, std::string_view name, const Tensor&) { ++seen[std::string(name)]; };
  Engine engine(config);
  engine.warm_up();
  EXPECT_EQ(seen["velocity.0"], 4);
  EXPECT_EQ(seen["velocity.1"], 4);
  const int more = device::traits().device == DeviceKind::cuda ? 4 : 0;  // its second step is recorded
  EXPECT_EQ(seen["velocity.2"], more);
  EXPECT_EQ(seen["velocity.3"], more);
  EXPECT_EQ(seen["velocity.4"], 0);
  const Json warmed = run(engine, small_ask()).at("warm_up");
  ASSERT_EQ(warmed.size(), 4u);
  std::vector<std::array<int, 3>> shapes;
  for (const Json& one : warmed) {
    shapes.push_back({one.at("width"), one.at("height"), one.at("num_frames")});
    EXPECT_GT(one.at("seconds"), 0);
  }
  EXPECT_EQ(shapes, (std::vector<std::array<int, 3>>{{64, 64, 9}, {64, 48, 9}, {64, 64, 5}, {64, 48, 5}}));
}

TEST(WarmingUp, NothingWhereNothingIsDeclared) {
  Engine engine(toy_config());
  engine.warm_up({}, [](const Progress&) { ADD_FAILURE(); });
  EXPECT_FALSE(run(engine, small_ask()).contains("warm_up"));
}

TEST(WarmingUp, TakesTheRecipesSizeOrLengthWhereOneIsDeclared) {
  EngineConfig config = toy_config();
  config.num_frames = {5};
  const Model model(config);
  const auto asks = declared_shapes(config, model);
  ASSERT_EQ(asks.size(), 1u);
  EXPECT_EQ(shape_text(model.resolve(asks[0])), "256x256, 5 frames");
  config.resolutions = {{48, 64}}, config.num_frames = {};
  EXPECT_EQ(shape_text(model.resolve(declared_shapes(config, model)[0])), "64x48, 17 frames");
}

TEST(WarmingUp, GivesEachExpertAStepWhateverTheSchedule) {
  const Model model(toy_config("wan-a14b"));
  for (const double shift : {1.0, 3.0, 12.0})
    for (const char* schedule : {"native", "diffusers"}) {
      Ask ask = small_ask();
      ask.flow_shift = shift, ask.schedule = schedule, ask.steps = 40;
      const Task task = model.task(ask);
      const Request request = shortest(task);
      const Schedule steps = make_schedule(task.scheduler, request.steps, parse_grid(request.schedule));
      EXPECT_EQ(steps.steps(), 2);
      EXPECT_EQ(high_noise_steps(steps, task.scheduler, request.boundary_ratio), 1) << shift << schedule;
    }
}

TEST(WarmingUp, RefusesAShapeThatTheModelDoesNotTakeBeforeAnythingElse) {
  EngineConfig config = toy_config();
  config.resolutions = {{48, 64}, {48, 100}};
  config.num_frames = {5};
  EXPECT_EQ(words([&] { Engine engine(config); }),
            "compilation_config: 100x48, 5 frames: size: width 100 is not a multiple of 16; use 96 or 112");
}

// The largest comes first, so that no weight is read for nothing.
TEST(WarmingUp, RefusesAShapeThatHasNoRoomBeforeAnyWeightIsRead) {
  EngineConfig config = declaring(toy_config());
  config.resolutions.push_back({1024, 1024});
  config.memory_limit = (int64_t{1} << 30) + static_cast<int64_t>(device::traits().fixed_memory);
  config.num_frames = {81};
  Engine engine(config);
  std::set<std::string> stages;
  const std::string said = words([&] {
    engine.warm_up({}, [&](const Progress& now) {
      if (now.note.empty()) stages.insert(cat(name(now.stage), ' ', now.done));
    });
  });
  EXPECT_TRUE(said.starts_with("warm-up: 1024x1024, 81 frames: memory: this request needs ")) << said;
  EXPECT_EQ(stages, std::set<std::string>());
  EXPECT_EQ(frames_hash(engine, small_ask()), fresh_hash(toy_config(), small_ask()));
}

TEST(WarmingUp, EndsWhenItIsAskedTo) {
  EngineConfig config = declaring(toy_config());
  Engine engine(config);
  std::stop_source stop;
  EXPECT_EQ(words([&] {
              engine.warm_up(stop.get_token(), [&](const Progress& now) {
                if (now.stage == Stage::denoise) stop.request_stop();
              });
            }),
            "cancelled");
  const Json report = run(engine, small_ask());
  EXPECT_EQ(frames_hash(report), fresh_hash(toy_config(), small_ask()));
  EXPECT_FALSE(report.contains("warm_up"));
}

TEST(WarmingUp, OnSeveralRanksLeavesTheFramesAlone) {
  if (device::traits().device == DeviceKind::cuda) GTEST_SKIP() << "an engine uses one GPU so far";
  EngineConfig config = declaring(toy_config("wan-a14b"));
  config.layout = {{.cfg = 2, .ulysses = 2}, {}};
  config.ranks = 4;
  Engine engine(config);
  engine.warm_up();
  const Json report = run(engine, small_ask());
  EXPECT_EQ(frames_hash(report), fresh_hash(toy_config("wan-a14b"), small_ask()));
  EXPECT_EQ(report.at("warm_up").size(), 1u);
}

}  // namespace
}  // namespace zoetrope
