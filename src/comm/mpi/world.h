// Ranks as processes that mpirun started, one rank a process, host memory. A library of its own (zoetrope_comm_mpi);
// where the build has no MPI, the constructor says so.
//
// A failing rank prints its cause and ends the job by MPI_Abort: mpirun ends the others, nobody returns.
#pragma once
#include "comm/launch.h"
#include "comm/world.h"

namespace zoetrope {

std::string mpi_library();  // its name and version; empty: not in this build

class MpiWorld final : public World {
 public:
  // Once a process. Refuses to initialise MPI where mpirun did not start this process (under srun above all), or where
  // the library is not safe for several threads. `status`: what the job ends with after an abort for such a reason.
  explicit MpiWorld(const Facts& facts, const Waits& waits = {}, std::function<int(Code)> status = {});
  ~MpiWorld() override;

  int rank() const;
  int size() const override;
  std::vector<int> here() const override { return {rank()}; }
  std::unique_ptr<Comm> comm(int rank) override;
  Session& session(int rank) override;
  [[noreturn]] void abort(const Cause& cause) noexcept override;
  std::optional<Cause> cause() const override { return std::nullopt; }
  bool recover(int) override { return false; }

  std::unique_ptr<Comm> comm() { return comm(rank()); }

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace zoetrope
