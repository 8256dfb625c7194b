// A request on its way through the engine.
#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>

#include "engine/model.h"
#include "engine/output.h"

namespace zoetrope {

enum class JobState : uint8_t { queued, running, done, failed, cancelled };
const char* name(JobState state);

class Job {
 public:
  void cancel();  // one that waits ends now; one that runs, at its next op or piece of one, or tensor that it loads
  JobState state() const;
  // Blocks until the job has ended; the report, or the job's Error.
  Json wait();
  const Request& request() const { return task_.request; }

 private:
  friend class Engine;
  Job(Task task, std::unique_ptr<Output> output, std::function<void(const Progress&)> progress);
  bool start();  // false: it ended while it waited
  void end(JobState state, Json report, std::exception_ptr error);

  const Task task_;
  std::unique_ptr<Output> output_;
  std::function<void(const Progress&)> progress_;
  std::stop_source stop_;

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  JobState state_ = JobState::queued;
  Json report_;
  std::exception_ptr error_;
};

}  // namespace zoetrope
