#include "cli/about.h"

#include "base/cat.h"
#include "comm/mpi/world.h"
#include "ops/cpu/version.h"
#include "ops/cuda/backend.h"
#include "version.h"

namespace zoetrope::cli {

std::string version_text() {
  const std::string mpi = mpi_library();
  return cat("zoetrope ", ZOETROPE_VERSION, " (", ZOETROPE_GIT, ")\n", "  devices    cpu (oneDNN ", onednn_version(),
             ")", cuda_is_built() ? ", cuda" : "", "\n", "  ranks      threads, processes",
             mpi.empty() ? "" : cat(", mpirun (", mpi, ")"), "\n", "  not built  ", cuda_is_built() ? "" : "cuda, ",
             mpi.empty() ? "mpi, " : "", "servers");
}

}  // namespace zoetrope::cli
