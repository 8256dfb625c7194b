#include "cli/processes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "base/error.h"
#include "cli/edge.h"
#include "cli/signals.h"
#include "comm/net.h"
#include "engine/output.h"
#include "io/child.h"

namespace zoetrope::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto patience = 5s;  // for those that are left, once one rank has failed

std::string fresh_token() {
  std::random_device entropy;
  char text[33];
  std::snprintf(text, sizeof text, "%08x%08x%08x%08x", entropy(), entropy(), entropy(), entropy());
  return text;
}

// A file of its own in memory, at its beginning.
Fd as_input(const std::string& text) {
  Fd file(::memfd_create("prompt", MFD_CLOEXEC));
  const bool written = file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || ::lseek(file.get(), 0, SEEK_SET) != 0)
    fail(Code::device, "processes: standard input cannot be passed on: ", std::strerror(errno));
  return file;
}

// One rank's process. What those beside rank 0 say is kept: they say the same as rank 0, or what it cannot.
class RankProcess {
 public:
  RankProcess(const World& world, int rank, int input, const std::vector<std::string>& variables) : rank_(rank) {
    FdPair errors = rank == 0 ? FdPair() : make_pipe();
    child_.emplace(world.program, world.arguments, input, rank == 0 ? STDOUT_FILENO : -1,
                   rank == 0 ? STDERR_FILENO : errors.theirs.get(), variables);
    pid_ = child_->pid();
    errors_ = std::move(errors.ours);
    if (errors_) ::fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
  }

  pid_t pid() const { return pid_; }
  void signal(int number) { child_->signal(number); }
  void kill() { child_->kill(); }
  std::optional<int> status() const { return child_->status(); }

  bool ended() {
    read_errors();
    if (!child_->ends_by(Deadline::in(0s))) return false;
    read_errors();
    return true;
  }

  // "rank 2: its process was killed (signal 9)", or its own words.
  std::string last_words() {
    const std::string how = child_->wait(), own = said_.substr(0, said_.find_last_not_of('\n') + 1);
    const std::string line = own.substr(own.find_last_of('\n') + 1), prefix = "zoetrope: ";
    const bool spoke = status() && line.starts_with(prefix);
    return cat("rank ", rank_, ": ", spoke ? line.substr(prefix.size()) : cat("its process ", how));
  }

 private:
  void read_errors() {
    char buffer[4096];
    ssize_t got = 0;
    while (errors_ && (got = ::read(errors_.get(), buffer, sizeof buffer)) > 0)
      said_.append(buffer, static_cast<size_t>(got));
    if (said_.size() > 65536) said_.erase(0, said_.size() - 32768);  // the end is what counts
  }

  int rank_;
  pid_t pid_ = -1;
  std::optional<Child> child_;
  Fd errors_;
  std::string said_;
};

class Supervisor {
 public:
  Supervisor(int count, const World& world, const std::string& input) {
    const Fd text = input.empty() ? Fd() : as_input(input);
    std::vector<std::string> common{
        cat("WORLD_SIZE=", count),        cat("LOCAL_WORLD_SIZE=", count),       "MASTER_ADDR=127.0.0.1",
        cat("MASTER_PORT=", free_port()), cat("ZOETROPE_TOKEN=", fresh_token()), cat("ZOETROPE_PARENT=", ::getpid())};
    for (int rank = 0; rank < count; ++rank) {
      std::vector<std::string> variables = common;
      variables.insert(variables.end(), {cat("RANK=", rank), cat("LOCAL_RANK=", rank)});
      ranks_.push_back(std::make_unique<RankProcess>(world, rank, rank == 0 && text ? text.get() : -1, variables));
    }
  }

  pid_t writer() const { return ranks_[0]->pid(); }
  void kill() {
    for (auto& rank : ranks_) rank->kill();
  }

  // Until all have ended: the status of the whole.
  int watch(const std::stop_token& stop) {
    std::vector<RankProcess*> running;
    for (auto& rank : ranks_) running.push_back(rank.get());
    std::optional<Deadline> end;
    bool told = false;
    while (!running.empty()) {
      if (stop.stop_requested() && !std::exchange(told, true))
        for (RankProcess* rank : running) rank->signal(SIGINT);
      std::erase_if(running, [&](RankProcess* rank) { return rank->ended() && note(*rank); });
      if (failed_ && !end) end = Deadline::in(patience);
      if (end && end->passed())
        for (RankProcess* rank : running) rank->kill();
      std::this_thread::sleep_for(10ms);
    }
    return result();
  }

 private:
  static uint16_t free_port() { return port_of(listen_at("127.0.0.1", 0)); }

  bool note(RankProcess& rank) {
    if (!failed_ && rank.status() != 0) failed_ = &rank;
    return true;
  }

  // Rank 0 has said why, unless it was killed.
  int result() {
    if (const auto status = ranks_[0]->status()) return *status;
    std::fprintf(stderr, "zoetrope: %s\n", one_line(failed_->last_words()).c_str());
    return failed_->status().value_or(exit_status(Code::comm));
  }

  std::vector<std::unique_ptr<RankProcess>> ranks_;
  RankProcess* failed_ = nullptr;  // the first
};

}  // namespace

int run_processes(int count, const World& world, const std::string& input, const std::filesystem::path& out) {
  std::atomic<Supervisor*> watching = nullptr;
  const Signals signals([&] {
    Supervisor* ranks = watching;
    if (!ranks) return;
    ranks->kill();
    remove_partial(out, ranks->writer());
  });
  Supervisor ranks(count, world, input);
  watching = &ranks;
  const int status = ranks.watch(signals.token());
  watching = nullptr;
  if (status != 0) remove_partial(out, ranks.writer());
  return status;
}

void end_with_parent(const World& world) {
  const auto parent = world.launcher.find("ZOETROPE_PARENT");
  if (parent == world.launcher.end()) return;
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (std::to_string(::getppid()) != parent->second) std::raise(SIGTERM);  // gone before we asked
}

}  // namespace zoetrope::cli
