#include "cli/edge.h"
#include "cli/program.h"

int main(int argc, char** argv) {
  using namespace zoetrope::cli;
  open_streams();
  return guarded([&] {
    const int status = run_program(World::from_environment(argc, argv), argc, argv);
    flush_output();
    return status;
  });
}
