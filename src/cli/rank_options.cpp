#include "cli/rank_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/edge.h"
#include "comm/mpi/world.h"
#include "comm/socket/world.h"
#include "core/most_ranks.h"

namespace zoetrope::cli {
namespace {

void require_count(const char* what, int count) {
  require(count >= 1, what, ": ", count, " asked for; 1 or more make sense");
  require(count <= most_ranks, what, ": ", count, " asked for; at most ", most_ranks, " make sense");
}

// Processes of this host, as far as a launcher said.
int local_processes(const Facts& facts) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"})
    if (const auto found = facts.find(name); found != facts.end()) return std::max(1, std::atoi(found->second.c_str()));
  return 1;
}

}  // namespace

void RankOptions::add(CLI::App& command) {
  command
      .add_option("--threads", threads_,
                  "CPU threads of this process, shared out over its ranks; 0, the default: all of the machine")
      ->type_name("N");
  ranks_given_ =
      command.add_option("--ranks", ranks_, "ranks that work on the request together, as threads of this process")
          ->type_name("N");
  processes_given_ =
      command.add_option("--processes", processes_, "the same as so many processes of this machine")->type_name("N");
  command
      .add_option("--config,--visual_gen_args", config_,
                  "YAML file with the mesh of ranks and other settings of the engine")
      ->type_name("FILE");
}

RankPlan RankOptions::plan(const World& world) const {
  require_count("ranks", ranks_);
  require_count("processes", processes_);
  require(threads_ >= 0, "threads: ", threads_, " asked for; 1 or more make sense, 0 takes all");
  RankPlan plan;
  plan.facts = world.launcher;
  plan.threads = threads_;
  if (!config_.empty()) plan.settings = read_settings(config_);
  const bool ranks_said = ranks_given_->count() > 0, processes_said = processes_given_->count() > 0;
  plan.ranks = ranks_said ? ranks_ : processes_said ? processes_ : plan.settings ? plan.settings->world() : 1;
  plan.launch = read_launch(world.launcher);
  if (plan.launch && plan.launch->world == 1) plan.launch.reset();
  if (plan.launch) {
    const int started = plan.launch->world;
    require(!ranks_said || ranks_ == started, "ranks: ", ranks_, " asked for, but a launcher started ", started,
            " processes; leave --ranks out");
    require(!processes_said || processes_ == started, "processes: ", processes_, " asked for, but a launcher started ",
            started, " processes; leave --processes out");
    plan.ranks = started;
  } else if (processes_ > 1) {
    require(!ranks_said || ranks_ == processes_, "processes: ", processes_, " for ", ranks_,
            " ranks; a process holds one rank, threads hold several: leave --processes out");
    plan.ranks = plan.processes = processes_;
  }
  return plan;
}

void RankPlan::apply(EngineConfig& config) const {
  config.ranks = ranks;
  config.threads = threads > 0 || !launch ? threads : std::max(1, config.thread_count() / local_processes(facts));
  if (!settings) return;
  config.layout = layout_of(*settings);
  config.cuda_graph = settings->cuda_graph;
  if (settings->memory_limit_gib) config.memory_limit = int64_t{*settings->memory_limit_gib} << 30;
  if (settings->attention_backend != "AUTO")
    config.notes.push_back(cat("attention_config.backend ", settings->attention_backend,
                               ": attention is chosen by device and type in this build, as AUTO does"));
  if (settings->skip_warmup) return;
  config.resolutions = settings->resolutions;
  config.num_frames = settings->num_frames;
}

std::unique_ptr<zoetrope::World> RankPlan::join() const {
  if (!launch) return nullptr;
  if (launch->by == Launch::By::mpirun) return std::make_unique<MpiWorld>(facts, Waits(), exit_status);
  return std::make_unique<SocketWorld>(*launch);
}

}  // namespace zoetrope::cli
