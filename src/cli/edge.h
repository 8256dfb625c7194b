// The command line's edge: error codes to exit statuses, one line on stderr. No other place knows a status number.
#pragma once
#include <functional>

#include "base/error.h"

namespace zoetrope::cli {

int exit_status(Code code);
// Runs a command; an Error becomes "zoetrope: <what>" and its status, any other exception status 4.
int guarded(const std::function<int()>& command);

}  // namespace zoetrope::cli
