// What stays between jobs: the pages of the regions and the recordings that work in them. A job of a shape that was
// made ready, or run before, takes no page and records nothing, whatever its prompt and its number of steps.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/jobs.h"
#include "engine/ladder.h"
#include "models/source.h"
#include "pipeline/facts.h"
#include "support/counted_pages.h"

namespace zoetrope {
namespace {

// Runs each piece and tells a first run of a key from the second, which a device would record, and from later ones.
// Like recordings it forgets what works in pages that are gone.
class Recordings final : public Segments {
 public:
  struct Seen {
    int first = 0, second = 0, later = 0;
  };
  explicit Recordings(Seen& seen) : seen_(seen) {}
  void run(Ctx& c, std::string_view key, const std::function<void()>& body) override {
    Recording& own = runs_[cat(key, " @", c.scratch().used())];
    body();
    ++(own.runs == 0 ? seen_.first : own.runs == 1 ? seen_.second : seen_.later);
    ++own.runs, own.request = c.request().committed(), own.scratch = c.scratch().committed();
  }
  void clear() override { runs_.clear(); }
  void trimmed(size_t request, size_t scratch) override {
    std::erase_if(runs_, [&](const auto& one) { return one.second.request > request || one.second.scratch > scratch; });
  }

 private:
  struct Recording {
    int runs = 0;
    size_t request = 0, scratch = 0;
  };
  Seen& seen_;
  std::map<std::string, Recording> runs_;
};

// An engine of one rank that is looked at.
struct Watched {
  explicit Watched(EngineConfig config) {
    config.prepare = [this](Rank& rank, int) {
      count_pages(rank, pages);
      rank.segments = std::make_unique<Recordings>(seen);
    };
    engine.emplace(config);
  }
  void forget() { pages.commits = pages.releases = 0, seen = {}; }
  // Takes nothing, records nothing.
  void expect_ready(const Ask& ask, const std::string& want) {
    forget();
    EXPECT_EQ(frames_hash(*engine, ask), want);
    EXPECT_EQ(pages.commits, 0);
    EXPECT_EQ(pages.releases, 0);
    EXPECT_EQ(seen.first, 0);
    EXPECT_EQ(seen.second, 0);
    EXPECT_GT(seen.later, 0);
  }

  Counted pages;
  Recordings::Seen seen;
  std::optional<Engine> engine;
};

Ask ask_for(const std::string& prompt, int steps, int width = 64) {
  Ask ask = small_ask();
  ask.prompt = prompt, ask.steps = steps, ask.width = width;
  return ask;
}

std::string long_prompt() {
  std::string prompt = "a cat";
  for (int i = 0; i < 300; ++i) prompt += " and another cat";
  return prompt;
}

EngineConfig declaring(EngineConfig config, std::vector<Resolution> sizes) {
  config.resolutions = std::move(sizes), config.num_frames = {5};
  return config;
}

struct KeptPages : testing::TestWithParam<const char*> {
  std::string fresh(const Ask& ask) const { return fresh_hash(toy_config(GetParam()), ask); }
};

TEST_P(KeptPages, ServeTheFirstJobOfAShapeThatWasMadeReady) {
  Watched w(declaring(toy_config(GetParam()), {{48, 64}}));
  w.engine->warm_up();
  for (const Ask& ask : {ask_for(long_prompt(), 9), ask_for("a dog", 3), ask_for("a dog", 40)})
    w.expect_ready(ask, fresh(ask));
}

TEST_P(KeptPages, ServeEachShapeThatWasMadeReady) {
  Watched w(declaring(toy_config(GetParam()), {{48, 64}, {64, 96}}));
  w.engine->warm_up();
  Ask large = ask_for("a cat", 5, 96), small = ask_for("a cat", 4);
  large.height = 64;
  for (const Ask& ask : {small, large, small}) w.expect_ready(ask, fresh(ask));
  // A larger one that nobody declared comes and goes.
  Ask larger = large;
  larger.width = larger.height = 128;
  const int64_t held = w.pages.held;
  EXPECT_EQ(frames_hash(*w.engine, larger), fresh(larger));
  EXPECT_GT(w.pages.held, held);
  w.forget();
  EXPECT_EQ(frames_hash(*w.engine, small), fresh(small));
  EXPECT_EQ(w.seen.first + w.seen.second, 0) << "their recordings work in pages that have stayed";
  EXPECT_EQ(w.pages.held, held);
  w.expect_ready(large, fresh(large));
}

TEST_P(KeptPages, ServeTheNextJobOfAShape) {
  Watched w(toy_config(GetParam()));
  run(*w.engine, ask_for(long_prompt(), 6));
  w.expect_ready(ask_for("a dog", 9), fresh(ask_for("a dog", 9)));
  w.expect_ready(ask_for("a cat", 4), fresh(ask_for("a cat", 4)));
}

TEST_P(KeptPages, GoWhereTheNextShapeNeedsLess) {
  Watched w(toy_config(GetParam()));
  const Ask small = ask_for("a cat", 4);
  Ask large = ask_for("a cat", 4, 128);
  large.height = 96;
  run(*w.engine, small);
  const int64_t least = w.pages.held;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(frames_hash(*w.engine, large), fresh(large));
    EXPECT_GT(w.pages.held, least);
    const Json report = run(*w.engine, small);
    EXPECT_EQ(frames_hash(report), fresh(small));
    EXPECT_LE(w.pages.held, report.at("peak_memory_bytes").at(0).at("predicted").get<int64_t>());
  }
}

// What a job left half done is no part of the next.
TEST_P(KeptPages, AreGoodAfterAJobThatWasLeft) {
  Watched w(declaring(toy_config(GetParam()), {{48, 64}}));
  w.engine->warm_up();
  const Ask ask = ask_for("a cat", 6);
  const std::string want = fresh(ask);
  for (const Stage stage : {Stage::text_encode, Stage::denoise, Stage::vae_decode}) {
    std::shared_ptr<Job> job;
    std::promise<void> there;
    const auto ready = there.get_future().share();
    job = w.engine->submit(ask_for("a dog", 5), std::make_unique<Kept>(), [&, ready, stage](const Progress& now) {
      ready.wait();
      if (now.stage == stage) job->cancel();
    });
    there.set_value();
    EXPECT_EQ(words([&] { job->wait(); }), "cancelled") << name(stage);
    w.expect_ready(ask, want);
  }
  const auto broken = std::make_exception_ptr(Error(Code::device, "the disk is full"));
  const auto job = w.engine->submit(ask, std::make_unique<Kept>(2, broken));
  EXPECT_EQ(words([&] { job->wait(); }), "the disk is full");
  w.expect_ready(ask, want);
}

INSTANTIATE_TEST_SUITE_P(Toys, KeptPages, testing::Values("wan", "wan-a14b"),
                         [](const auto& info) { return std::string(info.param) == "wan" ? "one_expert" : "two"; });

TEST(KeptRoom, StandsInTheForecast) {
  EngineConfig config = declaring(toy_config("wan-a14b"), {{64, 96}});
  Engine roomy(config);
  roomy.warm_up();
  const Json report = run(roomy, ask_for("a cat", 4));
  const Json& memory = report.at("peak_memory_bytes").at(0);
  EXPECT_EQ(memory.at("total"), memory.at("predicted"));
  Engine plain(toy_config("wan-a14b"));
  EXPECT_LT(run(plain, ask_for("a cat", 4)).at("peak_memory_bytes").at(0).at("total"), memory.at("total"));
}

// Where all weights have no room beside the pages of a shape that was made ready, those go, and the promise is kept.
TEST(KeptRoom, GoesWhereAJobNeedsIt) {
  Ask large = ask_for("a cat", 4, 96), long_one = ask_for("a cat", 3, 48);
  large.height = 64, long_one.height = 48, long_one.num_frames = 385;  // more latents, and less of what steps need
  const ModelSource source = open_model_folder(toy_folder("wan-a14b"));
  const DryModel model{source, device::traits(), DType::f32, DType::f32};
  const auto cost = [&](const Ask& ask) { return dry_run(model, resolve(ask, model_info(source), 0)); };
  const Cost of_large = cost(large), of_long = cost(long_one);
  EngineConfig config = declaring(toy_config("wan-a14b"), {{64, 96}});
  config.memory_limit = std::max(most_at_once(of_large.stages), most_at_once(of_long.stages));
  ASSERT_GT(most_at_once(with_room(of_long, of_large.memory, model.traits.page_grain).stages), config.memory_limit);
  Engine engine(config);
  engine.warm_up();
  for (const Ask& ask : {long_one, large}) {
    const Json report = run(engine, ask);
    EXPECT_EQ(report.at("residency"), "all");
    EXPECT_LE(report.at("peak_memory_bytes").at(0).at("total"), config.memory_limit);
    EXPECT_EQ(frames_hash(report), fresh_hash(toy_config("wan-a14b"), ask));
  }
}

}  // namespace
}  // namespace zoetrope
