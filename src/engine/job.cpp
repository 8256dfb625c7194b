#include "engine/job.h"

#include <utility>

#include "base/error.h"

namespace zoetrope {

const char* name(JobState state) {
  switch (state) {
    case JobState::queued:
      return "queued";
    case JobState::running:
      return "running";
    case JobState::done:
      return "done";
    case JobState::failed:
      return "failed";
    case JobState::cancelled:
      return "cancelled";
  }
  return "unknown";
}

Job::Job(Task task, std::unique_ptr<Output> output, std::function<void(const Progress&)> progress)
    : task_(std::move(task)), output_(std::move(output)), progress_(std::move(progress)) {}

JobState Job::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

bool Job::start() {
  const std::lock_guard lock(mutex_);
  if (state_ != JobState::queued) return false;
  state_ = JobState::running;
  return true;
}

void Job::cancel() {
  stop_.request_stop();
  if (start()) end(JobState::cancelled, {}, std::make_exception_ptr(Error(Code::cancelled, "cancelled")));
}

void Job::end(JobState state, Json report, std::exception_ptr error) {
  // A progress that holds its own job would keep both for ever. A local: it outlives the last look at a member.
  const std::function<void(const Progress&)> last = std::exchange(progress_, nullptr);
  output_.reset();  // a partial file goes before anybody hears that the job ended
  {
    const std::lock_guard lock(mutex_);
    state_ = state, report_ = std::move(report), error_ = std::move(error);
  }
  ended_.notify_all();
}

Json Job::wait() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] { return state_ != JobState::queued && state_ != JobState::running; });
  if (!error_) return report_;
  try {
    std::rethrow_exception(error_);
  } catch (const Error& error) {
    throw Error(error.code(), error.what());  // one of the waiter's own: the job's may go in another thread
  }
}

}  // namespace zoetrope
