// The program without its surroundings: main gives it those of a process, a test others.
#pragma once
#include "cli/world.h"

namespace zoetrope::cli {

// Runs what the words ask for; an exit status, or an exception for `guarded` (cli/edge.h).
int run_program(const World& world, int argc, char** argv);

}  // namespace zoetrope::cli
