// A command line that cannot be read, in one line: what was typed, why not, and the nearest that exists.
#pragma once
#include <CLI/App.hpp>

namespace zoetrope::cli {

// Error where an option is given as "", which a script's unset variable makes; a prompt may be empty.
void require_values(const CLI::App& app);
[[noreturn]] void fail_usage(const CLI::App& app, const CLI::ParseError& error);

}  // namespace zoetrope::cli
