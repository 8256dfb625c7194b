#include "cli/world.h"

#include <unistd.h>

#include <cstdlib>

namespace zoetrope::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

World World::from_environment() {
  World world;
  world.hub = {variable("HF_HUB_CACHE"), variable("HF_HOME"), variable("XDG_CACHE_HOME"), variable("HOME")};
  world.path = variable("PATH");
  std::error_code ignored;
  world.program_folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  world.terminal = ::isatty(STDERR_FILENO) == 1;
  return world;
}

}  // namespace zoetrope::cli
