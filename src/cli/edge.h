// The command line's edge: error codes to exit statuses, one line on stderr. No other place knows a status number.
#pragma once
#include <functional>
#include <string>

#include "base/error.h"

namespace zoetrope::cli {

int exit_status(Code code);
// Names in files and arguments are anybody's: none may speak to the terminal. Control characters become '?'.
std::string printable(std::string text);  // but line ends
std::string one_line(std::string text);   // of 64 KiB at most
// Gives descriptors 0 to 2 that came closed to /dev/null: the next file that is opened would get them otherwise, and
// what is printed would land in it. Before anything is opened.
void open_streams();
void flush_output();  // Error(invalid) where standard output did not take all that was printed
// Runs a command; an Error becomes "zoetrope: <what>" and its status, a file system's refusal 2, any other exception 4.
int guarded(const std::function<int()>& command);

}  // namespace zoetrope::cli
