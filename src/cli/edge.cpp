#include "cli/edge.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "comm/comm.h"

namespace zoetrope::cli {

int exit_status(Code code) {
  switch (code) {
    case Code::invalid:
    case Code::unsupported:
      return 2;
    case Code::out_of_memory:
      return 3;
    case Code::busy:
    case Code::comm:
    case Code::device:
      return 4;
    case Code::cancelled:
      return 130;
  }
  return 4;
}

void open_streams() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_WRONLY);  // reading the first fails, as it should
}

void flush_output() {
  const bool whole = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  require(whole, "standard output: cannot be written: ", std::strerror(errno));
}

std::string printable(std::string text) {
  for (char& c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7F) c = '?';
  return text;
}

std::string one_line(std::string text) {
  constexpr size_t longest = 64 << 10;
  if (text.size() > longest) text = cat(text.substr(0, longest), "... (", text.size() - longest, " bytes more)");
  std::ranges::replace(text, '\n', '?');
  return printable(std::move(text));
}

int guarded(const std::function<int()>& command) try { return command(); } catch (...) {
  const Cause cause = current_cause(-1);
  std::fprintf(stderr, "zoetrope: %s\n", one_line(cause.text).c_str());
  return exit_status(cause.code);
}

}  // namespace zoetrope::cli
