// Where the ranks of one local communicator meet. Every rank counts its own steps; a step is over when all have taken
// it. Between the two steps of a call peers' buffers may be read.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/local/world.h"

namespace zoetrope {

class LocalComm;

struct LocalGroup {
  LocalGroup(std::string axis, std::vector<int> members)
      : axis(std::move(axis)),
        members(std::move(members)),
        steps(this->members.size()),
        calls(steps.size()),
        splits(steps.size()),
        comms(steps.size()) {}

  int size() const { return static_cast<int>(members.size()); }
  bool all_at(uint64_t step) const;               // all have taken it
  bool only_missing(int rank) const;              // all others are one step ahead of `rank`
  std::vector<int> missing(uint64_t step) const;  // world ranks that have not taken it

  const std::string axis;
  const std::vector<int> members;        // world ranks
  std::vector<uint64_t> steps;           // by rank of this group
  std::vector<Call> calls;               // the one that each is in
  std::vector<std::vector<int>> splits;  // the group that each names in a split
  std::vector<LocalComm*> comms;         // those alive, for recover
  std::map<int, LocalGroup*> children;   // of the split that is under way, by lowest world rank
  int reading = 0;                       // ranks that may be reading their peers' buffers
  std::condition_variable changed;
};

struct LocalWorld::State {
  std::mutex mutex;  // guards all below and every group
  std::vector<std::unique_ptr<LocalGroup>> groups;
  std::vector<Session> sessions;
  std::optional<Cause> cause;
  std::condition_variable recovered;
  int recovering = 0;
  uint64_t recoveries = 0;
  std::function<void()> aborted;

  void abort(const Cause& first) noexcept;  // with the mutex held
};

}  // namespace zoetrope
