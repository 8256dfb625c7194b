#include "engine/engine.h"

#include <random>
#include <utility>

#include "base/deadline.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/report.h"
#include "ops/cpu/backend.h"
#include "pipeline/facts.h"
#include "pipeline/latents.h"
#include "sched/noise.h"

namespace zoetrope {
namespace {

int thread_count(int asked) {
  if (asked > 0) return asked;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

std::unique_ptr<Backend> make_backend(DeviceKind device) {
  if (device == DeviceKind::cpu) return make_cpu_backend();
  fail(Code::unsupported, "device cuda: this build has no CUDA back end; use --device cpu");
}

uint64_t fresh_seed() {
  std::random_device entropy;
  return entropy();  // 32 bits: short enough to be typed again
}

ModelSource open_source(const EngineConfig& config, Pool* pool) {
  return config.random_model.empty() ? open_model_folder(config.model, config.model_name, pool)
                                     : open_random_model(config.random_model, 0, pool);
}

}  // namespace

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

Job::Job(Request request, std::unique_ptr<Output> output, std::function<void(const Progress&)> progress)
    : request_(std::move(request)), output_(std::move(output)), progress_(std::move(progress)) {}

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
  if (error_) std::rethrow_exception(error_);
  return report_;
}

Engine::Engine(EngineConfig config)
    : config_(std::move(config)),
      pool_(thread_count(config_.threads)),
      backend_(make_backend(config_.device)),
      source_(open_source(config_, &pool_)),
      info_(model_info(source_)),
      tokenizer_(open_tokenizer(source_)),
      dry_runs_(source_, backend_->traits(), config_.dtype, config_.vae_dtype) {
  rank_.traits = backend_->traits();
  rank_.backend = backend_.get();
  rank_.pool = &pool_;
  rank_.memory_limit = config_.region_limit;
  rank_.tap = config_.tap;
  check_parts(source_);
  check_tokenizer(source_, tokenizer_->ids());
  c_ = std::make_unique<Ctx>(rank_);
  worker_ = std::jthread([this](const std::stop_token& end) { work(end); });
}

Engine::~Engine() {
  worker_.request_stop();
  {
    const std::lock_guard lock(mutex_);
    if (current_) current_->cancel();
  }
  worker_.join();
  const auto gone = std::make_exception_ptr(Error(Code::cancelled, "cancelled: the engine was closed"));
  for (const auto& job : queue_)
    if (job->start()) job->end(JobState::cancelled, {}, gone);
}

Request Engine::resolve(const Ask& ask) const {
  Request request = zoetrope::resolve(ask, info_, fresh_seed());
  parse_noise(request.noise);
  return request;
}

std::shared_ptr<Job> Engine::submit(const Ask& ask, std::unique_ptr<Output> output,
                                    std::function<void(const Progress&)> progress) {
  Request request = resolve(ask);
  const SchedulerConfig scheduler = scheduler_config(source_, request);
  make_schedule(scheduler, request.steps, parse_grid(request.schedule));
  const PromptIds ids = encode_prompts(*tokenizer_, request);  // a prompt that cannot be encoded is refused here
  request.warnings.insert(request.warnings.end(), ids.warnings.begin(), ids.warnings.end());
  check_latents(request, info_);
  std::shared_ptr<Job> job(new Job(request, std::move(output), std::move(progress)));
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

void Engine::load(const Hooks& hooks) {
  try {
    pipeline_ = std::make_unique<TextToVideo>(*c_, source_, config_.dtype, config_.vae_dtype, hooks);
  } catch (...) {
    rank_.weights.clear();  // a half-loaded model is of no use to the next job
    throw;
  }
}

// What earlier jobs took and this engine still holds is there for the next one, too.
void Engine::check_free_memory(MemoryNeed need) const {
  if (pipeline_) need.weights.clear();
  const size_t held = rank_.request->committed() + rank_.scratch->committed() + rank_.exchange->committed();
  check_memory(need, available_memory() + static_cast<int64_t>(held));
}

Json Engine::execute(Job& job) {
  const Stopwatch total;
  const Request& request = job.request();
  const Hooks hooks{job.stop_.get_token(), job.progress_};
  hooks.check();
  const StopScope stoppable(rank_, hooks.stop);
  const SchedulerConfig scheduler = scheduler_config(source_, request);

  Stopwatch watch;
  const Cost& cost = dry_runs_.of(request);
  check_free_memory(cost.memory);
  if (!pipeline_) load(hooks);
  const double load_seconds = watch.seconds();

  rank_.counts.clear();
  for (Region* region : {rank_.request.get(), rank_.scratch.get()}) region->reset_peak();
  job.output_->describe(to_json(request));
  const RunFacts facts =
      pipeline_->run(*c_, request, scheduler, encode_prompts(*tokenizer_, request), hooks, *job.output_);

  Json report = {{"model", source_.name},
                 {"device", name(config_.device)},
                 {"dtype", name(config_.dtype)},
                 {"vae_dtype", name(config_.vae_dtype)},
                 {"threads", pool_.threads()},
                 {"ranks", 1},
                 {"mesh", "1"},
                 {"tuned", false},
                 {"table_hash", nullptr},
                 {"warnings", Json::array()},
                 {"guardrails", "none"},
                 {"versions", versions_report()},
                 {"timings_s", timings_report(facts.timings, load_seconds, total.seconds())},
                 {"peak_memory_bytes", Json::array({memory_report(rank_)})},
                 {"collectives", Json::object()},
                 {"flops", {{"forward", cost.forward_flops}, {"total", flops_of(rank_.counts)}}},
                 {"output", job.output_->facts()}};
  report.update(to_json(request));
  if (source_.random()) report["warnings"].push_back("random weights: this is meant to be noise");
  for (const std::string& warning : request.warnings) report["warnings"].push_back(warning);
  return report;
}

}  // namespace zoetrope
