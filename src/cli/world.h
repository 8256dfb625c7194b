// What the command line knows of its surroundings. The only place that reads the environment.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "comm/launch.h"
#include "engine/config.h"
#include "io/hub.h"

namespace zoetrope::cli {

struct World {
  HubCache hub;
  std::string path;                            // PATH
  std::filesystem::path program_folder;        // where this program lies
  std::filesystem::path program;               // this program itself
  std::vector<std::string> arguments;          // what it was called with
  bool terminal = false;                       // stderr is one
  Facts launcher;                              // what a launcher of several processes said
  std::function<void(EngineConfig&)> prepare;  // changes what an engine is made of: the seam of tests for faults

  static World from_environment(int argc, char** argv);
};

}  // namespace zoetrope::cli
