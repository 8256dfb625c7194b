// How many ranks, where they are and how they are laid out: from options, a settings file and a launcher's variables.
#pragma once
#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>

#include "cli/world.h"
#include "comm/world.h"
#include "engine/config.h"

namespace zoetrope::cli {

struct RankPlan {
  int ranks = 1;
  int processes = 1;             // more: copies of this program are to be started, one a rank
  std::optional<Launch> launch;  // this process is one rank of several
  std::optional<Settings> settings;
  Facts facts;      // of the launcher
  int threads = 0;  // asked for; 0: all

  int rank() const { return launch ? launch->rank : 0; }
  void apply(EngineConfig& config) const;
  // Meets the other processes, if there are any. Deadline: that of Wait::bootstrap.
  std::unique_ptr<zoetrope::World> join() const;
};

class RankOptions {
 public:
  void add(CLI::App& command);              // must outlive the parse
  RankPlan plan(const World& world) const;  // Error(invalid) where they contradict each other

 private:
  std::string config_;
  int ranks_ = 1, processes_ = 1, threads_ = 0;
  CLI::Option *ranks_given_ = nullptr, *processes_given_ = nullptr;
};

}  // namespace zoetrope::cli
