// The subcommands. Each adds itself to the app; when it was chosen, `chosen` holds what to do.
#pragma once
#include <CLI/App.hpp>
#include <functional>
#include <string>

#include "cli/world.h"

namespace zoetrope::cli {

using Action = std::function<int()>;

void add_generate(CLI::App& app, const World& world, Action& chosen);
void add_bench(CLI::App& app, const World& world, Action& chosen);
void add_tune(CLI::App& app, const World& world, Action& chosen);
void add_inspect(CLI::App& app, const World& world, Action& chosen);
void add_parity(CLI::App& app, const World& world, Action& chosen);
void add_doctor(CLI::App& app, const World& world, Action& chosen);
void add_make_toy(CLI::App& app, const World& world, Action& chosen);
void add_not_built(CLI::App& app, Action& chosen);  // commands of the contract that this version lacks

}  // namespace zoetrope::cli
