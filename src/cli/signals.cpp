#include "cli/signals.h"

#include <unistd.h>

#include <csignal>
#include <ctime>
#include <utility>

namespace zoetrope::cli {
namespace {

// A hangup is left alone where `nohup` had it ignored.
sigset_t signals_to_take() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

Signals::Signals(std::function<void()> last) : taken_(signals_to_take()) {
  for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
  pthread_sigmask(SIG_BLOCK, &taken_, nullptr);
  waiter_ = std::jthread([this, last = std::move(last)](const std::stop_token& end) {
    const timespec tick{0, 100'000'000};
    while (!end.stop_requested()) {
      if (sigtimedwait(&taken_, nullptr, &tick) < 0) continue;
      if (source_.request_stop()) continue;
      if (last) last();
      ::_exit(130);  // asked twice
    }
  });
}

Signals::~Signals() {
  waiter_.request_stop();
  waiter_.join();
  pthread_sigmask(SIG_UNBLOCK, &taken_, nullptr);
}

}  // namespace zoetrope::cli
