// One rank of an engine: its device, memory, mesh and pipeline. All ranks call the same in the same order, each from
// one thread at a time.
#pragma once
#include "comm/world.h"
#include "engine/ladder.h"
#include "engine/model.h"
#include "engine/output.h"
#include "engine/tuning.h"
#include "ops/backend.h"

namespace zoetrope {

// What a rank knows after a job.
struct RankResult {
  Cost cost;
  RunFacts facts;
  double load_seconds = 0;
  Json versions;                      // of what this rank works with, see report.h
  bool graphs = false;                // segments were recorded and replayed
  std::string table_hash;             // of the measured plans it went by; empty: none
  std::vector<std::string> warnings;  // of the back end
  std::vector<Json> ranks;            // of all: {memory, flops}
};

class RankWorker {
 public:
  // What the ranks of one process have in common; it outlives them.
  struct Common {
    const EngineConfig& config;
    const Model& model;
    const Layout& layout;
    World& world;
    SharedWeights& weights;
  };

  // Meets the others: AgreedError where they were given another model, type or mesh.
  RankWorker(const Common& common, int number, int threads);

  int number() const { return number_; }
  const DryRuns& dry_runs() const { return dry_runs_; }

  // Waits for rank 0 without a deadline. Every rank says something and hears all.
  std::vector<std::string> meet(const std::string& say);

  // Runs one job, which `task` makes, alike on all ranks; the model is loaded by the first. Only rank 0 has an output,
  // and it, too, has none where a shape is made ready.
  // AgreedError: all ranks have thrown it, and are ready for the next. After any other error the group has to be
  // aborted.
  RankResult run(const std::function<Task()>& task, const Hooks& hooks, Output* output);

 private:
  Rank& prepare();
  bool on_cuda() const { return common_.config.device == DeviceKind::cuda; }
  RankResult work(const std::function<Task()>& make, const Hooks& hooks, Output* output);
  MemoryNow memory_now() const;
  void load(const Cost& cost, const Hooks& hooks);
  void keep_room(const MemoryNeed& need);

  const Common common_;
  int number_;
  Pool pool_;
  std::unique_ptr<Backend> backend_;
  TuningUsed tuning_;
  DryRuns dry_runs_;
  Rank rank_;
  Ctx c_;
  std::unique_ptr<Comm> world_;
  std::unique_ptr<Mesh> mesh_;
  std::unique_ptr<TextToVideo> pipeline_;
  int64_t first_free_ = 0;  // of the device, before anything was taken
  MemoryNeed room_;         // of request and scratch: the most of the shapes that were made ready
};

}  // namespace zoetrope
