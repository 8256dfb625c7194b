#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/commands.h"

namespace zoetrope::cli {

void add_not_built(CLI::App& app, Action& chosen) {
  for (const char* name : {"eval", "plan", "serve"}) {
    CLI::App* command = app.add_subcommand(name, "(not built in this version)")->allow_extras();
    command->callback([name, &chosen] {
      chosen = [name]() -> int {
        fail(Code::unsupported, name,
             ": not built in this version; generate, bench, tune, inspect, doctor, make-toy and parity are");
      };
    });
  }
}

}  // namespace zoetrope::cli
