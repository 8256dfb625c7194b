#include "cli/about.h"

#include "base/cat.h"
#include "ops/cpu/version.h"
#include "version.h"

namespace zoetrope::cli {

std::string version_text() {
  return cat("zoetrope ", ZOETROPE_VERSION, " (", ZOETROPE_GIT, ")\n", "  devices    cpu (oneDNN ", onednn_version(),
             ")\n", "  not built  cuda, mpi, servers");
}

}  // namespace zoetrope::cli
