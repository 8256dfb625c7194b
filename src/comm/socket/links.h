// Connections between every two ranks of a group, and the channel by which the processes of a world tell each other
// that they leave or fail.
#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "comm/comm.h"
#include "comm/net.h"
#include "comm/store.h"

namespace zoetrope {

// One connection to each of `peers` (world ranks, this one among them, whose entry stays empty). `id` is the same on
// all of them and used once; `note` must be equal on all (what the group is made of).
std::vector<Fd> link(Store& store, const Launch& launch, const std::string& id, const std::vector<int>& peers,
                     const std::string& note, Waits::Limit limit);
// The part of link() that a rank without a group owes those that might expect it.
void publish(Store& store, const Launch& launch, const std::string& id, const std::string& address,
             const std::string& note, Deadline deadline);

class Control {
 public:
  Control(std::vector<Fd> links, int rank, std::function<void()> aborted);
  ~Control();

  void abort(const Cause& cause) noexcept;  // the first counts; tells all peers and wakes all waits
  std::optional<Cause> cause() const;
  bool has_left(int rank) const;                  // said goodbye
  const Fd& wake() const { return wake_; }        // readable once there is a cause
  [[noreturn]] void throw_cause() const;          // only once there is one
  bool wait_for_cause(Waits::Limit limit) const;  // true if there is one

 private:
  void watch();
  void read_from(int peer);
  void tell_all(const std::string& frame) noexcept;

  std::vector<Fd> links_;  // by world rank
  int rank_;
  std::function<void()> aborted_;
  mutable std::mutex mutex_;  // guards the next two
  std::optional<Cause> cause_;
  std::set<int> left_;
  std::set<int> closed_;  // of the watching thread
  std::mutex sending_;
  Fd wake_, stop_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace zoetrope
