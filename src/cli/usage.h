// A command line that cannot be read, in one line: what was typed, why not, and the nearest that exists.
#pragma once
#include <CLI/App.hpp>

namespace zoetrope::cli {

[[noreturn]] void fail_usage(const CLI::App& app, const CLI::ParseError& error);

}  // namespace zoetrope::cli
