#include "engine/rank_worker.h"

#include <algorithm>

#include "base/deadline.h"
#include "base/units.h"
#include "comm/agree.h"
#include "engine/alike.h"
#include "engine/report.h"
#include "engine/warm_up.h"
#include "ops/cpu/backend.h"
#include "ops/cuda/backend.h"

namespace zoetrope {
namespace {

std::unique_ptr<Backend> make_backend(DeviceKind device, int ranks) {
  if (device == DeviceKind::cpu) return make_cpu_backend();
  if (ranks > 1)
    fail(Code::unsupported, "device cuda: ", ranks, " ranks, but only one GPU can be used so far; use --ranks 1, or ",
         "--device cpu");
  return make_cuda_backend(0);
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
      tuning_(use_tuning(*backend_, common.config.tuning)),
      dry_runs_({common.model.source(), backend_->traits(), common.config.dtype, common.config.vae_dtype},
                {common.layout, number}),
      c_(prepare()),
      world_(common.world.comm(number)) {
  const Waiting waiting(world_->waits(), Wait::bootstrap);
  require_alike(all_texts(c_, *world_, facts_of(common.config, common.model, common.layout)));
  mesh_ = std::make_unique<Mesh>(*world_, common.layout.shape, common.model.heads());
  pipeline_ = std::make_unique<TextToVideo>(c_, common.model.source(), common.config.dtype, common.config.vae_dtype,
                                            mesh_.get(), common.layout.forms);
  if (rank_.device_memory) first_free_ = rank_.device_memory().free;
}

Rank& RankWorker::prepare() {
  prepare_rank(rank_, *backend_);
  rank_.pool = &pool_;
  rank_.memory_limit = common_.config.region_limit;
  rank_.shared = &common_.weights;
  if (number_ == 0) rank_.tap = common_.config.tap;
  if (common_.config.prepare) common_.config.prepare(rank_, number_);
  if (!common_.config.cuda_graph) rank_.segments.reset();
  common_.world.watch(rank_, number_);
  return rank_;
}

std::vector<std::string> RankWorker::meet(const std::string& say) {
  rank_.enter_thread();
  const Waiting waiting(world_->waits(), Wait::idle);
  return all_texts(c_, *world_, say);
}

// What a device needs beside the regions is taken once, by the first jobs.
MemoryNow RankWorker::memory_now() const {
  MemoryNow now{available_memory(), 0, common_.config.memory_limit};
  if (!rank_.device_memory) return now;
  now.free = rank_.device_memory().free;
  const int64_t regions = memory_at(rank_, Stage::load).total();
  now.fixed_held = std::clamp<int64_t>(first_free_ - now.free - regions, 0, rank_.traits.fixed_memory);
  return now;
}

void RankWorker::load(const Cost& cost, const Hooks& hooks) {
  if (!pipeline_->loaded(cost.residency))
    hooks.report(
        {Stage::load, 0, 0, 0,
         cat("memory: ", words_of(cost.residency), ", at most ", human_bytes(most_at_once(cost.stages) + cost.fixed))});
  together(c_, *world_, [&] { pipeline_->load(c_, cost.residency, hooks); });
}

// All pages that a request of a declared shape may use, whatever its prompts and steps, from now on.
void RankWorker::keep_room(const MemoryNeed& need) {
  room_.request = std::max(room_.request, need.request), room_.scratch = std::max(room_.scratch, need.scratch);
  rank_.request->reserve(static_cast<size_t>(room_.request));
  rank_.scratch->reserve(static_cast<size_t>(room_.scratch));
}

RankResult RankWorker::work(const std::function<Task()>& make, const Hooks& hooks, Output* output) {
  rank_.enter_thread();  // jobs run in another thread than the one that made this
  const StopScope stoppable(rank_, hooks.stop);
  const Waiting waiting(world_->waits(), Wait::load);
  RankResult result;
  Task task;
  const Stopwatch watch;
  together(c_, *world_, [&] { task = make(); });
  result.cost = choose_rung(c_, *world_, dry_runs_, task.request, memory_now(), room_);
  trim(rank_, result.cost.memory);  // what an earlier job of another shape has left
  load(result.cost, hooks);
  result.load_seconds = watch.seconds();
  if (task.warm_up) task.request = shortest(task, rank_.segments ? 2 : 1);  // memory was judged for all of its steps

  rank_.counts.clear();
  for (Region* region : {rank_.request.get(), rank_.scratch.get()}) region->reset_peak();
  if (output) output->describe(to_json(task.request));
  NoFrames nobody;
  FrameSink& sink = output ? static_cast<FrameSink&>(*output) : nobody;
  result.facts = pipeline_->run(c_, task.request, task.scheduler, task.ids, hooks, sink);
  result.graphs = rank_.segments != nullptr;
  if (task.warm_up && result.cost.residency == Residency::all) keep_room(result.cost.memory);
  result.table_hash = tuning_.hash;
  if (on_cuda()) result.warnings = cuda_tuning_warnings(*backend_);
  return result;
}

RankResult RankWorker::run(const std::function<Task()>& task, const Hooks& hooks, Output* output) {
  RankResult result = work(task, hooks, output);
  // From here on the video is there: nobody looks at the stop token any more.
  result.versions = versions_report(on_cuda() ? std::optional(cuda_facts(*backend_)) : std::nullopt);
  const int64_t before = rank_.device_memory ? rank_.device_memory().total - first_free_ : 0;
  const Json mine = {{"memory", memory_report(result, before)}, {"flops", flops_of(rank_.counts)}};
  for (const std::string& text : meet(mine.dump())) result.ranks.push_back(parse_json(text, "rank"));
  return result;
}

}  // namespace zoetrope
