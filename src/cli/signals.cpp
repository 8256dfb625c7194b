#include "cli/signals.h"

#include <unistd.h>

#include <csignal>
#include <ctime>
#include <utility>

namespace zoetrope::cli {
namespace {

sigset_t ours() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

Signals::Signals(std::function<void()> last) {
  const sigset_t set = ours();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  waiter_ = std::jthread([this, last = std::move(last)](const std::stop_token& end) {
    const sigset_t wanted = ours();
    const timespec tick{0, 100'000'000};
    while (!end.stop_requested()) {
      if (sigtimedwait(&wanted, nullptr, &tick) < 0) continue;
      if (source_.request_stop()) continue;
      if (last) last();
      ::_exit(130);  // asked twice
    }
  });
}

Signals::~Signals() {
  waiter_.request_stop();
  waiter_.join();
  const sigset_t set = ours();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace zoetrope::cli
