// Where the ranks of a job meet, as one process sees it: all of them as its threads (comm/local), or one of them, the
// others being processes (comm/socket, comm/mpi).
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/comm.h"

namespace zoetrope {

class World {
 public:
  virtual ~World() = default;

  virtual int size() const = 0;
  virtual std::vector<int> here() const = 0;         // ranks of this process, ascending
  virtual std::unique_ptr<Comm> comm(int rank) = 0;  // of all ranks, axis "world"; once for each rank that is here
  virtual Session& session(int rank) = 0;
  virtual void abort(const Cause& cause) noexcept = 0;  // the first counts
  virtual std::optional<Cause> cause() const = 0;
  // After an abort, from the thread of each rank that is here, once it has left the job. True: all have left it, every
  // communicator works again. False: this world is over.
  virtual bool recover(int rank) = 0;

  // Called once an abort, by whichever thread sees it first and with locks held: it may set a flag and no more. Once
  // this returns the one before is not called any more.
  void when_aborted(std::function<void()> call) {
    const std::lock_guard lock(calling_);
    when_aborted_ = std::move(call);
  }

  // Makes an error on the rank's side stream abort the group at once: its main thread may be waiting for peers who wait
  // for what the side did not send. Before the first fork.
  void watch(Rank& rank, int number);

 protected:
  void aborted() const noexcept {
    const std::lock_guard lock(calling_);
    if (when_aborted_) when_aborted_();
  }

 private:
  mutable std::mutex calling_;
  std::function<void()> when_aborted_;
};

}  // namespace zoetrope
