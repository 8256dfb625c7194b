#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/signals.h"
#include "config/fields.h"
#include "engine/toy.h"

namespace zoetrope::cli {
namespace {

struct Options {
  std::string kind, out, seed = "0";
};

int make_toy(const Options& o) {
  Ask seed;
  set(seed, request_field("seed"), o.seed);
  const Signals signals;
  write_toy(o.kind, o.out, *seed.seed, signals.token());
  std::printf("%s\n", o.out.c_str());
  return 0;
}

}  // namespace

void add_make_toy(CLI::App& app, const World&, Action& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("make-toy", "write a small model folder with random weights");
  command->add_option("--kind", o->kind, "which model it imitates")->required()->type_name(toy_kinds);
  command->add_option("--out", o->out, "folder to make")->required()->type_name("DIR");
  command->add_option("--seed", o->seed, "of the weights")->type_name("N")->capture_default_str();
  command->callback([o, &chosen] { chosen = [o] { return make_toy(*o); }; });
}

}  // namespace zoetrope::cli
