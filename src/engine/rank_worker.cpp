#include "engine/rank_worker.h"

#include "base/deadline.h"
#include "comm/agree.h"
#include "engine/alike.h"
#include "engine/host_memory.h"
#include "engine/report.h"
#include "ops/cpu/backend.h"
#include "ops/cuda/backend.h"

namespace zoetrope {
namespace {

std::unique_ptr<Backend> make_backend(DeviceKind device, int ranks) {
  if (device == DeviceKind::cpu) return make_cpu_backend();
  auto backend = make_cuda_backend(0);
  if (ranks > 1)
    fail(Code::unsupported, "device cuda: ", ranks, " ranks, but only one GPU can be used so far; use --ranks 1, or ",
         "--device cpu");
  return backend;
}

// What must be equal on all ranks before they split into axes.
std::string facts_of(const EngineConfig& config, const Model& model, const Layout& layout) {
  const Json facts = {{"model", model.fingerprint()},
                      {"device", name(config.device)},
                      {"dtype", name(config.dtype)},
                      {"vae dtype", name(config.vae_dtype)},
                      {"mesh", layout.text()}};
  return facts.dump();
}

}  // namespace

RankWorker::RankWorker(const Common& common, int number, int threads)
    : common_(common),
      number_(number),
      pool_(threads),
      backend_(make_backend(common.config.device, common.world.size())),
      dry_runs_(common.model.source(), backend_->traits(), common.config.dtype, common.config.vae_dtype,
                {common.layout, number}),
      c_(prepare()),
      world_(common.world.comm(number)) {
  const Waiting waiting(world_->waits(), Wait::bootstrap);
  require_alike(all_texts(c_, *world_, facts_of(common.config, common.model, common.layout)));
  mesh_ = std::make_unique<Mesh>(*world_, common.layout.shape, common.model.heads());
}

Rank& RankWorker::prepare() {
  rank_.traits = backend_->traits();
  rank_.backend = backend_.get();
  if (on_cuda()) prepare_cuda(rank_, *backend_);
  rank_.pool = &pool_;
  rank_.memory_limit = common_.config.region_limit;
  rank_.shared = &common_.weights;
  if (number_ == 0) rank_.tap = common_.config.tap;
  if (common_.config.prepare) common_.config.prepare(rank_, number_);
  common_.world.watch(rank_, number_);
  return rank_;
}

std::vector<std::string> RankWorker::meet(const std::string& say) {
  if (on_cuda()) use_cuda_thread(*backend_);
  const Waiting waiting(world_->waits(), Wait::idle);
  return all_texts(c_, *world_, say);
}

void RankWorker::load(const Hooks& hooks) {
  const EngineConfig& config = common_.config;
  try {
    together(c_, *world_, [&] {
      if (pipeline_) return;
      pipeline_ = std::make_unique<TextToVideo>(c_, common_.model.source(), config.dtype, config.vae_dtype, hooks,
                                                mesh_.get(), common_.layout.forms);
    });
  } catch (...) {
    pipeline_.reset();
    rank_.weights.clear();  // a half-loaded model is of no use to the next job
    throw;
  }
}

RankResult RankWorker::work(const std::function<Task()>& make, const Hooks& hooks, Output* output) {
  if (on_cuda()) use_cuda_thread(*backend_);  // jobs run in another thread than the one that made this
  const StopScope stoppable(rank_, hooks.stop);
  const Waiting waiting(world_->waits(), Wait::load);
  RankResult result;
  Task task;
  const Stopwatch watch;
  together(c_, *world_, [&] {
    task = make();
    result.cost = dry_runs_.of(task.request);
  });
  // A stop may have ended the last load on some ranks only.
  const int64_t free = on_cuda() ? static_cast<int64_t>(cuda_free_memory(*backend_)) : available_memory();
  if (!check_hosts(c_, *world_, result.cost, pipeline_ != nullptr, free)) load(hooks);
  result.load_seconds = watch.seconds();

  rank_.counts.clear();
  for (Region* region : {rank_.request.get(), rank_.scratch.get()}) region->reset_peak();
  if (output) output->describe(to_json(task.request));
  NoFrames nobody;
  FrameSink& sink = output ? static_cast<FrameSink&>(*output) : nobody;
  result.facts = pipeline_->run(c_, task.request, task.scheduler, task.ids, hooks, sink);
  return result;
}

RankResult RankWorker::run(const std::function<Task()>& task, const Hooks& hooks, Output* output) {
  RankResult result = work(task, hooks, output);
  // From here on the video is there: nobody looks at the stop token any more.
  const Json mine = {{"memory", memory_report(rank_)}, {"flops", flops_of(rank_.counts)}};
  for (const std::string& text : meet(mine.dump())) result.ranks.push_back(parse_json(text, "rank"));
  return result;
}

}  // namespace zoetrope
