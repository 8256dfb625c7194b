// The command line's edge: error codes to exit statuses, one line on stderr. No other place knows a status number.
#pragma once
#include <functional>
#include <string>

#include "base/error.h"

namespace zoetrope::cli {

int exit_status(Code code);
std::string one_line(std::string text);  // control characters become '?'
// Runs a command; an Error becomes "zoetrope: <what>" and its status, a file system's refusal 2, any other exception 4.
int guarded(const std::function<int()>& command);

}  // namespace zoetrope::cli
