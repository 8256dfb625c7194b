// Ranks as threads of one process, on the CPU or all on one GPU: peers read each other's buffers, waits block on
// condition variables.
#pragma once
#include "comm/world.h"

namespace zoetrope {

class LocalWorld final : public World {
 public:
  explicit LocalWorld(int ranks, const Waits& waits = {});  // each rank starts with a copy of `waits`
  ~LocalWorld() override;                                   // after the last communicator is gone

  int size() const override;
  std::vector<int> here() const override;
  std::unique_ptr<Comm> comm(int rank) override;  // from any thread
  Session& session(int rank) override;
  void abort(const Cause& cause) noexcept override;
  std::optional<Cause> cause() const override;
  bool recover(int rank) override;  // always, or Error(comm) at the deadline of Wait::bootstrap

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
