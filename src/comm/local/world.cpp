#include "comm/local/world.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <thread>

#include "comm/local/comm.h"

namespace zoetrope {

bool LocalGroup::all_at(uint64_t step) const {
  return std::ranges::all_of(steps, [step](uint64_t taken) { return taken >= step; });
}

bool LocalGroup::only_missing(int rank) const {
  const uint64_t mine = steps[static_cast<size_t>(rank)];
  for (int r = 0; r < size(); ++r)
    if (r != rank && steps[static_cast<size_t>(r)] <= mine) return false;
  return true;
}

std::vector<int> LocalGroup::missing(uint64_t step) const {
  std::vector<int> ranks;
  for (size_t r = 0; r < members.size(); ++r)
    if (steps[r] < step) ranks.push_back(members[r]);
  return ranks;
}

void LocalWorld::State::abort(const Cause& first) noexcept {
  if (cause) return;
  cause = first;
  aborted();
  for (const auto& group : groups) group->changed.notify_all();
  recovered.notify_all();
}

LocalWorld::LocalWorld(int ranks, const Waits& waits) : state_(std::make_unique<State>()) {
  state_->aborted = [this] { aborted(); };
  require(ranks >= 1, "ranks: ", ranks, " asked for, at least 1 is needed");
  std::vector<int> members(static_cast<size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  state_->groups.push_back(std::make_unique<LocalGroup>("world", members));
  state_->sessions.assign(members.size(), Session{waits, nullptr});
}

LocalWorld::~LocalWorld() = default;

int LocalWorld::size() const { return static_cast<int>(state_->sessions.size()); }

std::vector<int> LocalWorld::here() const { return state_->groups.front()->members; }

Session& LocalWorld::session(int rank) { return state_->sessions.at(static_cast<size_t>(rank)); }

std::unique_ptr<Comm> LocalWorld::comm(int rank) {
  return std::make_unique<LocalComm>(*state_, *state_->groups.front(), rank, session(rank));
}

void LocalWorld::abort(const Cause& cause) noexcept {
  const std::lock_guard lock(state_->mutex);
  state_->abort(cause);
}

std::optional<Cause> LocalWorld::cause() const {
  const std::lock_guard lock(state_->mutex);
  return state_->cause;
}

bool LocalWorld::recover(int rank) {
  State& state = *state_;
  const Deadline deadline = deadline_of(session(rank).waits.limit(Wait::bootstrap));
  std::unique_lock lock(state.mutex);
  const uint64_t before = state.recoveries;
  if (++state.recovering == size()) {
    for (const auto& group : state.groups) {
      std::ranges::fill(group->steps, 0);
      group->children.clear();
      for (LocalComm* comm : group->comms)
        if (comm) comm->restart();
    }
    state.cause.reset();
    state.recovering = 0, ++state.recoveries;
    state.recovered.notify_all();
    return true;
  }
  const auto over = [&] { return state.recoveries != before; };
  if (deadline.endless())
    state.recovered.wait(lock, over);
  else if (!state.recovered.wait_until(lock, deadline.at(), over))
    fail(Code::comm, "recover: ", size() - state.recovering, " of ", size(), " ranks have not left the failed job");
  return true;
}

void run_ranks(int n, const PrepareRank& prepare, const std::function<void(Ctx& c, Comm& world)>& body,
               const Waits& waits) {
  LocalWorld world(n, waits);
  std::vector<Rank> ranks(static_cast<size_t>(n));  // outlive all threads: peers read each other's regions
  std::vector<std::exception_ptr> errors(ranks.size());
  const auto run = [&](int r) {
    try {
      prepare(ranks[static_cast<size_t>(r)], r);
      world.watch(ranks[static_cast<size_t>(r)], r);
      const auto comm = world.comm(r);
      Ctx c(ranks[static_cast<size_t>(r)]);
      body(c, *comm);
    } catch (...) {
      errors[static_cast<size_t>(r)] = std::current_exception();
      world.abort(current_cause(r));
    }
  };
  std::vector<std::thread> threads;
  try {
    for (int r = 1; r < n; ++r) threads.emplace_back(run, r);
    run(0);
  } catch (...) {  // no more threads
    world.abort(current_cause(0));
  }
  for (auto& thread : threads) thread.join();
  if (n == 1 && errors[0]) std::rethrow_exception(errors[0]);
  if (const auto cause = world.cause()) throw Error(cause->code, cause->words());
}

}  // namespace zoetrope
