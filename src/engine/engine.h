// The engine: one model, one queue, one worker. Command line, servers and the C interface are faces of this class.
// A failed or cancelled job leaves the engine as it was; the next job gives the same bytes as in a fresh process.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "config/request.h"
#include "core/ctx.h"
#include "engine/dry_runs.h"
#include "engine/output.h"
#include "models/source.h"
#include "pipeline/hooks.h"
#include "pipeline/text_to_video.h"

namespace zoetrope {

struct EngineConfig {
  std::filesystem::path model;  // folder; empty: `random_model`
  std::string model_name;       // what the user calls it, for reports and messages; empty: the folder
  std::string random_model;     // preset of random:NAME
  DeviceKind device = DeviceKind::cpu;
  DType dtype = DType::f32, vae_dtype = DType::f32;
  int threads = 0;                 // 0: as many as the machine has
  size_t max_queued = 16;          // more is refused: Error(busy)
  size_t region_limit = SIZE_MAX;  // most bytes that one memory region may take
  Tap tap;                         // sees every named intermediate of every job, on the worker's thread
};

enum class JobState : uint8_t { queued, running, done, failed, cancelled };
const char* name(JobState state);

class Job {
 public:
  void cancel();  // one that waits ends now; one that runs, at its next op or piece of one, or tensor that it loads
  JobState state() const;
  // Blocks until the job has ended; the report, or the job's Error.
  Json wait();
  const Request& request() const { return request_; }

 private:
  friend class Engine;
  Job(Request request, std::unique_ptr<Output> output, std::function<void(const Progress&)> progress);
  bool start();  // false: it ended while it waited
  void end(JobState state, Json report, std::exception_ptr error);

  const Request request_;
  std::unique_ptr<Output> output_;
  std::function<void(const Progress&)> progress_;
  std::stop_source stop_;

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  JobState state_ = JobState::queued;
  Json report_;
  std::exception_ptr error_;
};

class Engine {
 public:
  explicit Engine(EngineConfig config);  // reads and checks configs and headers, no weights yet
  ~Engine();                             // cancels what runs, drops what waits
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelInfo& model() const { return info_; }
  const ModelSource& source() const { return source_; }
  const DryRuns& dry_runs() const { return dry_runs_; }  // ask between jobs

  // Checks the request against the model now; runs it when its turn comes, if there is memory for it then. Progress is
  // called on the worker's thread. The output belongs to the job.
  std::shared_ptr<Job> submit(const Ask& ask, std::unique_ptr<Output> output,
                              std::function<void(const Progress&)> progress = {});
  Request resolve(const Ask& ask) const;

 private:
  void work(const std::stop_token& end);
  void run(Job& job);
  Json execute(Job& job);
  void load(const Hooks& hooks);
  void check_free_memory(MemoryNeed need) const;

  EngineConfig config_;
  Pool pool_;
  std::unique_ptr<Backend> backend_;
  ModelSource source_;
  ModelInfo info_;
  std::unique_ptr<Tokenizer> tokenizer_;
  DryRuns dry_runs_;
  Rank rank_;
  std::unique_ptr<Ctx> c_;
  std::unique_ptr<TextToVideo> pipeline_;  // made by the first job

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::shared_ptr<Job> current_;
  std::jthread worker_;  // last: uses all of the above
};

}  // namespace zoetrope
