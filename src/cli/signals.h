// SIGINT, SIGTERM and SIGHUP as a stop token. Signals are blocked in every thread and taken by one that waits for them,
// so that no code of ours runs inside a handler. A second signal ends the process at once, after `last` has cleaned up.
// SIGPIPE and SIGXFSZ become errors of the write that meets them: a reader of progress that goes away ends no job.
#pragma once
#include <csignal>
#include <functional>
#include <stop_token>
#include <thread>

namespace zoetrope::cli {

class Signals {
 public:
  // Before any other thread is made: threads inherit the mask.
  explicit Signals(std::function<void()> last = {});
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  sigset_t taken_;
  std::stop_source source_;
  std::jthread waiter_;
};

}  // namespace zoetrope::cli
