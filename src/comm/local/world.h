// Ranks as threads of one process: peers read each other's buffers, waits block on condition variables.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "comm/comm.h"

namespace zoetrope {

class LocalWorld {
 public:
  explicit LocalWorld(int ranks, const Waits& waits = {});  // each rank starts with a copy of `waits`
  ~LocalWorld();                                            // after the last communicator is gone

  int size() const;
  std::unique_ptr<Comm> comm(int rank);  // of all ranks, axis "world"; one per rank, from any thread
  Session& session(int rank);

  // Makes an error on the rank's side stream abort the group at once: its main thread may be waiting for peers who wait
  // for what the side did not send. Before the first fork.
  void watch(Rank& rank, int number);

  void abort(const Cause& cause) noexcept;
  std::optional<Cause> cause() const;

  // After a failed job: each rank's thread calls it once it has left the job (forks joined). Returns when all have, and
  // every communicator made so far works again. Deadline: Wait::bootstrap.
  void recover(int rank);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// Runs body on n threads, one per rank, each with its own Rank and Ctx. `prepare` gives the Rank its back end and pool.
// A rank that throws frees the others; when all have returned, the first cause is thrown, as "rank 3: ..." if n > 1.
using PrepareRank = std::function<void(Rank& rank, int number)>;
void run_ranks(int n, const PrepareRank& prepare, const std::function<void(Ctx& c, Comm& world)>& body,
               const Waits& waits = {});

}  // namespace zoetrope
