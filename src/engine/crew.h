// The ranks of an engine that are in this process, all of them as threads or one of a world of processes, and how they
// work together: rank 0 gives the orders, every rank runs them, and an error of one ends the job of all.
//
// In a world of threads the ranks go on after a failed job. A world of processes ends with the first job that fails by
// more than an agreed error.
#pragma once
#include <atomic>
#include <mutex>
#include <thread>

#include "engine/rank_worker.h"

namespace zoetrope {

class Crew {
 public:
  // Starts the ranks and returns when all have met. The world outlives it. Error(invalid) with the layouts that would
  // work, before any rank is started, for a mesh that is not legal; else the first cause, with its rank.
  Crew(const EngineConfig& config, const Model& model, World& world);
  ~Crew();  // lets the others go

  const Layout& layout() const { return layout_; }
  int threads() const;  // of this process
  const DryRuns& dry_runs() const { return workers_[0]->dry_runs(); }

  // On rank 0's process, one at a time; no output: frames go nowhere. The first cause, with its rank: "rank 3: ...".
  RankResult run(const Task& task, const Hooks& hooks, Output* output);

  // On every other process: runs what rank 0 orders until it lets go. `expected`: what this process was asked for,
  // where it was. Throws what the last job threw.
  void follow(const Json& expected, const std::stop_token& stop);

 private:
  void start(size_t index);
  void serve(size_t index);
  bool obey(RankWorker& worker, const std::string& expected);
  Error leave(int number);
  void end() noexcept;
  std::stop_source begin();
  std::stop_token halted();

  const Layout layout_;
  World& world_;
  SharedWeights weights_;
  const RankWorker::Common common_;
  const int threads_;                                 // of a rank
  std::vector<std::unique_ptr<RankWorker>> workers_;  // those here, rank 0 first; they outlive the threads
  std::atomic<bool> lost_ = false;
  std::mutex halting_;
  std::stop_source halt_;  // of the job that runs, asked by its caller or by an abort
  std::vector<std::thread> followers_;
};

}  // namespace zoetrope
