#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/about.h"
#include "cli/commands.h"
#include "cli/edge.h"
#include "cli/processes.h"
#include "cli/usage.h"
#include "config/resources.h"

namespace {

using namespace zoetrope;

int run(int argc, char** argv) {
  const cli::World world = cli::World::from_environment(argc, argv);
  cli::end_with_parent(world);
  cli::Action chosen;
  CLI::App app{"zoetrope: video from text with diffusion transformers", "zoetrope"};
  app.set_version_flag("--version", cli::version_text, "what this build is, has and lacks");
  bool licenses = false;
  app.add_flag("--licenses", licenses, "print the licences of what this program is built from");
  app.require_subcommand(0, 1);
  cli::add_generate(app, world, chosen);
  cli::add_inspect(app, world, chosen);
  cli::add_parity(app, world, chosen);
  cli::add_bench(app, world, chosen);
  cli::add_tune(app, world, chosen);
  cli::add_doctor(app, world, chosen);
  cli::add_make_toy(app, world, chosen);
  cli::add_not_built(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    cli::fail_usage(app, error);
  }
  cli::require_values(app);
  if (licenses) return std::printf("%s", std::string(resource("THIRD_PARTY.md")).c_str()), 0;
  if (chosen) return chosen();
  std::printf("%s", app.help().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  cli::open_streams();
  return cli::guarded([&] {
    const int status = run(argc, argv);
    cli::flush_output();
    return status;
  });
}
