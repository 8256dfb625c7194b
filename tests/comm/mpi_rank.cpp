// One rank of mpi_test: mpirun starts several of it. argv[1]: verbs, throw, stall or exit.
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <thread>

#include "comm/mpi/world.h"
#include "comm/verb_cases.h"

namespace zoetrope {
namespace {

Facts environment() {
  Facts facts;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"})
    if (const char* value = std::getenv(name)) facts[name] = value;
  return facts;
}

void run(std::string_view what, Ctx& c, Comm& world) {
  if (what == "verbs")
    for (const auto verb : verb_cases) verb(c, world);
  world.barrier(c);
  const bool last = world.rank() + 1 == world.size();
  if (what == "throw" && last) fail(Code::out_of_memory, "no room for frames");
  if (what == "exit" && last) std::_Exit(0);
  if (what == "stall" && last) std::this_thread::sleep_for(std::chrono::seconds(60));
  const Waiting step(world.waits(), Wait::step);
  world.barrier(c);
}

int rank_main(std::string_view what) {
  Waits waits = short_waits();
  waits.set(Wait::step, std::chrono::milliseconds(500));
  try {
    MpiWorld world(environment(), waits);
    try {
      Rank rank;
      prepare_rank(rank, world.rank());
      const auto comm = world.comm();
      Ctx c(rank);
      run(what, c, *comm);
    } catch (...) {
      world.abort(current_cause(world.rank()));
    }
    return testing::Test::HasFailure() ? 1 : 0;
  } catch (const Error& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}

}  // namespace
}  // namespace zoetrope

int main(int argc, char** argv) { return zoetrope::rank_main(argc > 1 ? argv[1] : ""); }
