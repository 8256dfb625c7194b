// The engine: one model, one queue, a crew of ranks. Command line, servers and the C interface are faces of this class.
// A failed or cancelled job leaves the engine as it was; the next job gives the same bytes as in a fresh process.
//
// Ranks are threads of this process, or one of them is this process: then every process makes an engine with the same
// configuration, that of rank 0 is the face, and the others follow.
#pragma once
#include <condition_variable>
#include <deque>
#include <optional>

#include "comm/local/world.h"
#include "engine/crew.h"
#include "engine/job.h"
#include "engine/warm_up.h"

namespace zoetrope {

class Engine {
 public:
  // Reads and checks configs and headers, no weights yet, and starts the ranks. `world` (null: config.ranks threads)
  // must outlive the engine.
  explicit Engine(EngineConfig config, World* world = nullptr);
  ~Engine();  // cancels what runs, drops what waits, lets the other ranks go
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const ModelInfo& model() const { return model_.info(); }
  const ModelSource& source() const { return model_.source(); }
  int ranks() const { return world_.size(); }
  const Layout& layout() const { return crew_.layout(); }
  const DryRuns& dry_runs() const { return crew_.dry_runs(); }  // of the first rank here; ask between jobs

  // Runs each shape that the configuration declares, with the fewest steps: weights are read, plans chosen, memory
  // taken. A request of such a shape is then like any later one. Blocks, and does nothing where none is declared. For
  // rank 0's process, before the first request; Error names the shape. `only`: where there will be but this request,
  // its shape, if that is one of them.
  void warm_up(const std::stop_token& stop = {}, const std::function<void(const Progress&)>& progress = {},
               const Ask* only = nullptr);

  // Checks the request against the model now; runs it when its turn comes, if there is memory for it then. Progress is
  // called on the worker's thread. The output belongs to the job. Rank 0's process only.
  std::shared_ptr<Job> submit(const Ask& ask, std::unique_ptr<Output> output,
                              std::function<void(const Progress&)> progress = {});
  Request resolve(const Ask& ask) const { return model_.resolve(ask); }

  // The other processes: works for rank 0 until it lets go; see Crew::follow.
  void follow(const Json& expected, const std::stop_token& stop) { crew_.follow(expected, stop); }

 private:
  std::shared_ptr<Job> enqueue(Task task, std::unique_ptr<Output> output,
                               std::function<void(const Progress&)> progress);
  void work(const std::stop_token& end);
  void run(Job& job);
  Json execute(Job& job);
  Json report_of(const Job& job, const RankResult& result, double seconds) const;

  const EngineConfig config_;
  const Model model_;
  const std::vector<Ask> declared_;
  std::optional<LocalWorld> threads_;
  World& world_;
  Crew crew_;
  Json warmed_ = Json::array();  // shapes, and how long each took; the worker's

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::shared_ptr<Job> current_;
  std::jthread worker_;  // last: uses all of the above
};

}  // namespace zoetrope
