#include "cli/program.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/about.h"
#include "cli/commands.h"
#include "cli/processes.h"
#include "cli/usage.h"
#include "config/resources.h"

namespace zoetrope::cli {

int run_program(const World& world, int argc, char** argv) {
  end_with_parent(world);
  Action chosen;
  CLI::App app{"zoetrope: video from text with diffusion transformers", "zoetrope"};
  app.set_version_flag("--version", version_text, "what this build is, has and lacks");
  bool licenses = false;
  app.add_flag("--licenses", licenses, "print the licences of what this program is built from");
  app.require_subcommand(0, 1);
  add_generate(app, world, chosen);
  add_inspect(app, world, chosen);
  add_parity(app, world, chosen);
  add_bench(app, world, chosen);
  add_tune(app, world, chosen);
  add_doctor(app, world, chosen);
  add_make_toy(app, world, chosen);
  add_not_built(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fail_usage(app, error);
  }
  require_values(app);
  if (licenses) return std::printf("%s", std::string(resource("THIRD_PARTY.md")).c_str()), 0;
  if (chosen) return chosen();
  std::printf("%s", app.help().c_str());
  return 0;
}

}  // namespace zoetrope::cli
