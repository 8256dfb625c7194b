// Ranks as processes that mpirun started, one rank a process, host memory. A library of its own (zoetrope_comm_mpi);
// where the build has no MPI, the constructor says so.
//
// A failing rank prints its cause and ends the job by MPI_Abort with status 4: mpirun ends the others, nobody returns.
#pragma once
#include <memory>

#include "comm/comm.h"
#include "comm/launch.h"

namespace zoetrope {

class MpiWorld {
 public:
  // Once a process. Refuses to initialise MPI where mpirun did not start this process (under srun above all), or where
  // the library is not safe for several threads.
  explicit MpiWorld(const Facts& facts, const Waits& waits = {});
  ~MpiWorld();

  int rank() const;
  int size() const;
  std::unique_ptr<Comm> comm();  // of all ranks, axis "world"
  Session& session();
  [[noreturn]] void abort(const Cause& cause) noexcept;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace zoetrope
