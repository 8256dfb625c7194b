// Ranks as processes of this host: copies of this program, one a rank, and this process watches them.
#pragma once
#include <filesystem>
#include <string>

#include "cli/world.h"

namespace zoetrope::cli {

// Runs the same command line `count` times and gives the exit status of the whole. Rank 0 has our standard streams, and
// says what is to be said; where it cannot, because it was killed or waits in vain, we name the rank that failed first.
// One that is lost ends the others within seconds; an interrupt is passed on to all. `input` is rank 0's standard
// input, if it needs one. `out`: the video, of which nothing partial stays.
int run_processes(int count, const World& world, const std::string& input, const std::filesystem::path& out);

// For a process started like that: ends it, as an interrupt would, when its parent is gone.
void end_with_parent(const World& world);

}  // namespace zoetrope::cli
