// What the command line knows of its surroundings. The only place that reads the environment.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "comm/launch.h"
#include "io/hub.h"

namespace zoetrope::cli {

struct World {
  HubCache hub;
  std::string path;                      // PATH
  std::filesystem::path program_folder;  // where this program lies
  std::filesystem::path program;         // this program itself
  std::vector<std::string> arguments;    // what it was called with
  bool terminal = false;                 // stderr is one
  Facts launcher;                        // what a launcher of several processes said

  static World from_environment(int argc, char** argv);
};

}  // namespace zoetrope::cli
