// What a launcher said about this process. Facts come as a map (the CLI reads the environment; nothing here does).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace zoetrope {

using Facts = std::map<std::string, std::string>;

struct Launch {
  enum class By : uint8_t { variables, mpirun, slurm };

  By by = By::variables;
  int rank = 0, world = 1;
  int local_rank = 0;  // among the processes of this host
  std::string host;    // where rank 0 listens
  uint16_t port = 0;
  std::string token;  // what the store asks for
};

// RANK, WORLD_SIZE, LOCAL_RANK (any launcher), OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK} (mpirun), SLURM_PROCID,
// SLURM_NTASKS, SLURM_LOCALID (srun); MASTER_ADDR, or under Slurm the first host of SLURM_JOB_NODELIST; MASTER_PORT, or
// one made of SLURM_JOB_ID; ZOETROPE_TOKEN. nullopt: nobody launched this process as one of several.
// Refuses half a set, numbers that are none, a rank outside its world, and two launchers that say different things
// (mpirun inside a Slurm job is no conflict: its own variables count). A world of several needs a token, except where
// all of it is on one host and rank 0 listens on the loopback.
std::optional<Launch> read_launch(const Facts& facts);

// "gpu[003-010,12],login1" -> "gpu003". Refuses what is no host list.
std::string first_host(std::string_view nodelist);

// MPI must not be initialised under srun; and only where mpirun started the process.
bool may_start_mpi(const Facts& facts);

}  // namespace zoetrope
