#include "cli/edge.h"

#include <cstdio>
#include <new>

namespace zoetrope::cli {

int exit_status(Code code) {
  switch (code) {
    case Code::invalid:
    case Code::unsupported:
      return 2;
    case Code::out_of_memory:
      return 3;
    case Code::comm:
    case Code::device:
      return 4;
    case Code::cancelled:
      return 130;
  }
  return 4;
}

int guarded(const std::function<int()>& command) {
  const auto say = [](const char* what) { std::fprintf(stderr, "zoetrope: %s\n", what); };
  try {
    return command();
  } catch (const Error& error) {
    say(error.what());
    return exit_status(error.code());
  } catch (const std::bad_alloc&) {
    say("out of memory");
    return exit_status(Code::out_of_memory);
  } catch (const std::exception& error) {
    say(error.what());
    return exit_status(Code::device);
  }
}

}  // namespace zoetrope::cli
