// The queue, cancelling at every stage, and failures: whatever ends a job, the next gives a fresh engine's bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>

#include "base/deadline.h"
#include "engine/engine.h"
#include "engine/jobs.h"
#include "io/safetensors.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

// Holds a job at its first sign of progress until it is opened.
class Gate {
 public:
  std::function<void(const Progress&)> hold() const {
    return [opened = opened_](const Progress&) { opened.wait(); };
  }
  void open() { open_.set_value(); }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
};

TEST(Queue, RunsInOrder) {
  Engine engine(toy_config());
  Gate gate;
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::shared_ptr<Job>> jobs{engine.submit(small_ask(), std::make_unique<Kept>(), gate.hold())};
  for (int i = 0; i < 3; ++i)
    jobs.push_back(engine.submit(small_ask(), std::make_unique<Kept>(), [&, i](const Progress& now) {
      const std::lock_guard lock(mutex);
      if (now.stage == Stage::text_encode && now.done == 0) order.push_back(i);
    }));
  EXPECT_EQ(jobs[3]->state(), JobState::queued);
  gate.open();
  for (const auto& job : jobs) job->wait();
  EXPECT_EQ(order, (std::vector{0, 1, 2}));
}

TEST(Queue, RefusesMoreThanItHolds) {
  EngineConfig config = toy_config();
  config.max_queued = 2;
  Engine engine(config);
  Gate gate;
  const auto first = engine.submit(small_ask(), std::make_unique<Kept>(), gate.hold());
  while (first->state() != JobState::running) std::this_thread::yield();
  const auto second = engine.submit(small_ask(), std::make_unique<Kept>());
  const auto third = engine.submit(small_ask(), std::make_unique<Kept>());
  const auto more = [&] { engine.submit(small_ask(), std::make_unique<Kept>()); };
  EXPECT_EQ(words(more), "queue: 2 jobs wait already; try again later");
  EXPECT_EQ(code_of(more), Code::busy);  // not bad input

  second->cancel();  // its place is free at once, and nobody waits for it
  EXPECT_EQ(second->state(), JobState::cancelled);
  EXPECT_EQ(words([&] { second->wait(); }), "cancelled");
  const auto fourth = engine.submit(small_ask(), std::make_unique<Kept>());
  gate.open();
  EXPECT_EQ(frames_hash(fourth->wait()), frames_hash(third->wait()));
  EXPECT_EQ(second->state(), JobState::cancelled);
}

TEST(Queue, LosesNothingToBadRequests) {
  Engine engine(toy_config());
  std::vector<std::thread> callers;
  std::atomic<int> refused = 0;
  for (int i = 0; i < 50; ++i)
    callers.emplace_back([&] {
      Ask ask = small_ask();
      ask.num_frames = 6;
      if (words([&] { engine.submit(ask, std::make_unique<Kept>()); }).starts_with("num_frames: 6 is not 4k + 1"))
        ++refused;
    });
  const std::string hash = frames_hash(engine, small_ask());
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(refused, 50);
  EXPECT_EQ(hash, fresh_hash(toy_config(), small_ask()));
}

TEST(Queue, KeepsNoJobThatItsOwnProgressHolds) {
  Engine engine(toy_config());
  std::promise<std::shared_ptr<Job>> made;
  auto self = made.get_future().share();
  auto job = engine.submit(small_ask(), std::make_unique<Kept>(), [self](const Progress&) { self.get(); });
  made.set_value(job);
  self = {};
  job->wait();
  const std::weak_ptr<Job> ended = job;
  made = {}, job = nullptr;
  engine.submit(small_ask(), std::make_unique<Kept>())->wait();  // by now the engine is through with the first
  EXPECT_EQ(ended.lock(), nullptr);
}

TEST(Queue, EndsItsJobsWhenTheEngineGoes) {
  Gate gate;
  std::shared_ptr<Job> running, waiting;
  std::thread opener;
  {
    Engine engine(toy_config());
    running = engine.submit(small_ask(), std::make_unique<Kept>(), gate.hold());
    while (running->state() != JobState::running) std::this_thread::yield();
    waiting = engine.submit(small_ask(), std::make_unique<Kept>());
    opener = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      gate.open();
    });
  }
  opener.join();
  EXPECT_EQ(words([&] { waiting->wait(); }), "cancelled: the engine was closed");
  EXPECT_EQ(words([&] { running->wait(); }), "cancelled");
}

// ---- cancelling -------------------------------------------------------------------------------------------------

struct Moment {
  Stage stage;
  int done;
};
void PrintTo(const Moment& moment, std::ostream* out) { *out << name(moment.stage) << ' ' << moment.done; }

class Cancel : public testing::TestWithParam<Moment> {};

TEST_P(Cancel, LeavesNoFileAndNoTrace) {
  const TempFolder folder;
  Engine engine(toy_config("wan-a14b"));
  std::promise<std::shared_ptr<Job>> made;
  const auto self = made.get_future().share();
  Ask ask = small_ask();
  ask.steps = 4;
  const auto job = engine.submit(ask, open_output(folder / "x.mp4", programs, ""), [&, self](const Progress& now) {
    EXPECT_LE(now.stage, GetParam().stage);
    if (now.stage == GetParam().stage && now.done == GetParam().done) self.get()->cancel();
  });
  made.set_value(job);
  EXPECT_EQ(words([&] { job->wait(); }), "cancelled");
  EXPECT_EQ(job->state(), JobState::cancelled);
  EXPECT_EQ(folder.count(), 0u);
  EXPECT_EQ(frames_hash(engine, ask), fresh_hash(toy_config("wan-a14b"), ask));
}

INSTANTIATE_TEST_SUITE_P(Stages, Cancel,
                         testing::Values(Moment{Stage::load, 1}, Moment{Stage::load, 3}, Moment{Stage::text_encode, 0},
                                         Moment{Stage::denoise, 1}, Moment{Stage::denoise, 3},
                                         Moment{Stage::vae_decode, 1}, Moment{Stage::encode, 0}),
                         [](const auto& info) { return cat(name(info.param.stage), "_", info.param.done); });

// In the middle of the text encoder, of a step and of a decoded chunk: what comes after the tap that cancels is not
// computed.
TEST(Cancelling, EndsWithinAStep) {
  for (const char* const place : {"block.0.attn", "block.1.attn2", "up.1"}) {
    std::vector<std::string> seen;
    std::shared_ptr<Job> job;
    EngineConfig config = toy_config();
    config.tap = [&](Ctx&, std::string_view name, const Tensor&) {
      if (!job) return;
      seen.emplace_back(name);
      if (name == place) job->cancel();
    };
    Engine engine(config);
    Gate gate;
    const auto running = engine.submit(small_ask(), std::make_unique<Kept>(), gate.hold());
    job = running;
    gate.open();
    EXPECT_EQ(words([&] { running->wait(); }), "cancelled");
    ASSERT_FALSE(seen.empty());
    EXPECT_EQ(seen.back(), place);
    EXPECT_EQ(std::ranges::count(seen, place), 1);
    job.reset();
    EXPECT_EQ(frames_hash(engine, small_ask()), fresh_hash(toy_config(), small_ask()));
  }
}

TEST(Cancelling, EndsAnEncoderThatHangs) {
  const TempFolder folder, bin;
  const fs::path helper =
      bin.put("zoetrope-mp4", "#!/bin/sh\n[ \"$1\" = --version ] && echo zoetrope-mp4 0 && exit\nsleep 60\n");
  fs::permissions(helper, fs::perms::owner_all);
  Engine engine(toy_config());
  std::promise<void> encodes;
  const auto job = engine.submit(small_ask(), open_output(folder / "x.mp4", bin.path(), ""), [&](const Progress& now) {
    if (now.stage == Stage::encode) encodes.set_value();
  });
  encodes.get_future().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // into the wait for the helper
  const Stopwatch watch;
  job->cancel();
  EXPECT_EQ(words([&] { job->wait(); }), (folder / "x.mp4").string() + ": cancelled while it was encoded");
  EXPECT_LT(watch.seconds(), 5);
  EXPECT_EQ(job->state(), JobState::cancelled);
  EXPECT_EQ(folder.count(), 0u);
}

TEST(Cancelling, ComesTooLateForWhatIsDone) {
  Engine engine(toy_config());
  const auto job = engine.submit(small_ask(), std::make_unique<Kept>());
  const std::string hash = frames_hash(job->wait());
  job->cancel();
  EXPECT_EQ(job->state(), JobState::done);
  EXPECT_EQ(frames_hash(job->wait()), hash);
}

// ---- failing ----------------------------------------------------------------------------------------------------

void put_latents(const fs::path& file, const Shape& shape, float value) {
  std::vector<float> values(static_cast<size_t>(shape.size()), value);
  write_safetensors(file, {{"latents", Tensor(values.data(), shape, DType::f32)}});
}

TEST(Failure, InLatentsThatAreNotFiniteLeavesNoTrace) {
  const TempFolder folder;
  put_latents(folder / "bad.safetensors", {2, 6, 8, 16}, std::numeric_limits<float>::infinity());
  Engine engine(toy_config());
  Ask ask = small_ask();
  ask.latents = (folder / "bad.safetensors").string();
  const auto job = engine.submit(ask, std::make_unique<Kept>());
  EXPECT_EQ(words([&] { job->wait(); }), *ask.latents + ": latents hold a value that is not finite");
  EXPECT_EQ(job->state(), JobState::failed);
  EXPECT_EQ(frames_hash(engine, small_ask()), fresh_hash(toy_config(), small_ask()));
}

// By another program, such as a download that begins again. A map of the file would end the process.
TEST(Failure, OfWeightsThatAreCutShortWhileTheyAreInUse) {
  const TempFolder folder;
  write_toy("wan", folder / "toy", 0);
  EngineConfig config = toy_config();
  config.model = folder / "toy";
  const auto file = folder / "toy/transformer/diffusion_pytorch_model.safetensors";
  Engine engine(config);
  const std::string whole = read_file(file, 64u << 20);
  std::filesystem::resize_file(file, whole.size() / 2);
  for (int i = 0; i < 2; ++i) {
    const std::string said = words([&] { run(engine, small_ask()); });
    EXPECT_TRUE(said.starts_with(file.string() + ": ends at byte ")) << said;
    EXPECT_TRUE(
        said.ends_with(cat(", it was ", whole.size(), " bytes when it was opened; it is truncated, download it again")))
        << said;
  }
  write_file(file, whole);  // the next engine finds a whole one
  EXPECT_EQ(fresh_hash(config, small_ask()), fresh_hash(toy_config(), small_ask()));
}

TEST(Failure, InTheFileOfLatentsIsFoundBeforeTheJob) {
  const TempFolder folder;
  Engine engine(toy_config());
  Ask ask = small_ask();
  const std::string file = (folder / "l.safetensors").string();
  ask.latents = file;
  const auto said = [&] { return words([&] { engine.submit(ask, std::make_unique<Kept>()); }); };
  EXPECT_EQ(said(), file + ": cannot be opened: No such file or directory");
  put_latents(file, {1, 6, 8, 16}, 0.5f);
  EXPECT_EQ(said(), file +
                        ": latents are [1, 6, 8, 16] fp32, this request needs [2, 6, 8, 16] fp32 (frames, rows, "
                        "columns, channels)");
}

TEST(Failure, OfASinkLeavesNoTrace) {
  Engine engine(toy_config());
  for (const auto& error :
       {std::make_exception_ptr(Error(Code::invalid, "the disk is full")),
        std::make_exception_ptr(std::runtime_error("the sink broke")), std::make_exception_ptr(std::bad_alloc())}) {
    const auto job = engine.submit(small_ask(), std::make_unique<Kept>(2, error));
    std::string said;
    try {
      job->wait();
    } catch (const std::exception& what) {
      said = what.what();
    }
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& what) {
      EXPECT_EQ(said, what.what());
    }
    EXPECT_EQ(job->state(), JobState::failed);
    EXPECT_EQ(frames_hash(engine, small_ask()), fresh_hash(toy_config(), small_ask()));
  }
}

}  // namespace
}  // namespace zoetrope
