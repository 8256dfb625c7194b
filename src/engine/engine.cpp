#include "engine/engine.h"

#include <utility>

#include "base/deadline.h"
#include "base/error.h"
#include "engine/report.h"

namespace zoetrope {

Engine::Engine(EngineConfig config, World* world)
    : config_(std::move(config)),
      model_(config_),
      declared_(declared_shapes(config_, model_)),
      world_(world ? *world : threads_.emplace(config_.ranks, config_.waits)),
      crew_(config_, model_, world_) {
  if (world_.here()[0] == 0) worker_ = std::jthread([this](const std::stop_token& end) { work(end); });
}

Engine::~Engine() {
  worker_.request_stop();
  {
    const std::lock_guard lock(mutex_);
    if (current_) current_->cancel();
  }
  if (worker_.joinable()) worker_.join();
  const auto gone = std::make_exception_ptr(Error(Code::cancelled, "cancelled: the engine was closed"));
  for (const auto& job : queue_)
    if (job->start()) job->end(JobState::cancelled, {}, gone);
}

std::shared_ptr<Job> Engine::submit(const Ask& ask, std::unique_ptr<Output> output,
                                    std::function<void(const Progress&)> progress) {
  return enqueue(model_.task(ask), std::move(output), std::move(progress));
}

std::shared_ptr<Job> Engine::enqueue(Task task, std::unique_ptr<Output> output,
                                     std::function<void(const Progress&)> progress) {
  std::shared_ptr<Job> job(new Job(std::move(task), std::move(output), std::move(progress)));
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(queue_, [](const auto& waiting) { return waiting->state() != JobState::queued; });
    if (queue_.size() >= config_.max_queued)
      fail(Code::busy, "queue: ", queue_.size(), " jobs wait already; try again later");
    queue_.push_back(job);
  }
  wake_.notify_all();
  return job;
}

void Engine::warm_up(const std::stop_token& stop, const std::function<void(const Progress&)>& progress,
                     const Ask* only) {
  if (declared_.empty()) return;
  const std::string wanted = only ? shape_text(model_.task(*only).request) : "";  // what cannot be is said now
  for (const Ask& ask : declared_) {
    Task task = model_.task(ask);
    if (only && shape_text(task.request) != wanted) continue;
    task.warm_up = true;
    const std::string what = cat("warm-up: ", shape_text(task.request));
    if (progress) progress({Stage::load, 0, 0, 0, what});
    const auto job = enqueue(std::move(task), nullptr, progress);
    const std::stop_callback cancel(stop, [&] { job->cancel(); });
    try {
      job->wait();
    } catch (const Error& error) {
      if (error.code() == Code::cancelled) throw;
      fail(error.code(), what, ": ", error.what());
    }
  }
}

void Engine::work(const std::stop_token& end) {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, end, [&] { return !queue_.empty(); })) return;
      if (end.stop_requested()) return;
      current_ = std::move(queue_.front());
      queue_.pop_front();
    }
    run(*current_);
    const std::lock_guard lock(mutex_);
    current_.reset();
  }
}

void Engine::run(Job& job) {
  if (!job.start()) return;
  try {
    Json report = execute(job);
    job.end(JobState::done, std::move(report), nullptr);
  } catch (const Error& error) {
    const bool cancelled = error.code() == Code::cancelled;
    job.end(cancelled ? JobState::cancelled : JobState::failed, {}, std::current_exception());
  } catch (...) {
    job.end(JobState::failed, {}, std::current_exception());
  }
}

Json Engine::execute(Job& job) {
  const Stopwatch total;
  const Hooks hooks{job.stop_.get_token(), job.progress_};
  hooks.check();
  const RankResult result = crew_.run(job.task_, hooks, job.output_.get());
  if (!job.task_.warm_up) return report_of(job, result, total.seconds());
  const Request& r = job.request();
  warmed_.push_back(
      {{"width", r.width}, {"height", r.height}, {"num_frames", r.num_frames}, {"seconds", total.seconds()}});
  return {};
}

Json Engine::report_of(const Job& job, const RankResult& result, double seconds) const {
  Json report = job_report(config_, job.request(), result, seconds);
  report["model"] = model_.source().name;
  report["threads"] = crew_.threads();
  report["mesh"] = text_of(crew_.layout().shape);
  report["output"] = job.output_->facts();
  if (!warmed_.empty()) report["warm_up"] = warmed_;
  if (model_.source().random()) report["warnings"].push_back("random weights: this is meant to be noise");
  for (const std::string& note : config_.notes) report["warnings"].push_back(note);
  for (const std::string& warning : job.request().warnings) report["warnings"].push_back(warning);
  if (crew_.layout().shape.cfg > 1 && !job.request().guided())
    report["warnings"].push_back(
        "without guidance both CFG halves compute the same; with cfg 1 all ranks share the work");
  return report;
}

}  // namespace zoetrope
