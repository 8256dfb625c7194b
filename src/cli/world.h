// What the command line knows of its surroundings. The only place that reads the environment.
#pragma once
#include <filesystem>
#include <string>

#include "io/hub.h"

namespace zoetrope::cli {

struct World {
  HubCache hub;
  std::string path;                      // PATH
  std::filesystem::path program_folder;  // where this program lies
  bool terminal = false;                 // stderr is one

  static World from_environment();
};

}  // namespace zoetrope::cli
