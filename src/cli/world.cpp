#include "cli/world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace zoetrope::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Of any launcher, mpirun and srun; see comm/launch.h.
constexpr const char* launcher_variables[] = {"RANK",
                                              "WORLD_SIZE",
                                              "LOCAL_RANK",
                                              "LOCAL_WORLD_SIZE",
                                              "MASTER_ADDR",
                                              "MASTER_PORT",
                                              "OMPI_COMM_WORLD_RANK",
                                              "OMPI_COMM_WORLD_SIZE",
                                              "OMPI_COMM_WORLD_LOCAL_RANK",
                                              "OMPI_COMM_WORLD_LOCAL_SIZE",
                                              "SLURM_PROCID",
                                              "SLURM_NTASKS",
                                              "SLURM_LOCALID",
                                              "SLURM_JOB_ID",
                                              "SLURM_JOB_NODELIST",
                                              "ZOETROPE_TOKEN",
                                              "ZOETROPE_PARENT"};

}  // namespace

World World::from_environment(int argc, char** argv) {
  World world;
  world.hub = {variable("HF_HUB_CACHE"), variable("HF_HOME"), variable("XDG_CACHE_HOME"), variable("HOME")};
  world.path = variable("PATH");
  std::error_code ignored;
  world.program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  world.program_folder = world.program.parent_path();
  world.arguments.assign(argv + std::min(argc, 1), argv + argc);
  world.terminal = ::isatty(STDERR_FILENO) == 1;
  for (const char* name : launcher_variables)
    if (const std::string value = variable(name); !value.empty()) world.launcher[name] = value;
  return world;
}

}  // namespace zoetrope::cli
