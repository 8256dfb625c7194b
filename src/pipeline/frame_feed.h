// Frames on their way from the host's memory into a sink, in a thread of its own: a sink that takes its time (a hash, a
// pipe to an encoder) keeps nobody waiting who makes the next ones.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>

#include "pipeline/hooks.h"

namespace zoetrope {

class FrameFeed {
 public:
  // frame_bytes: of one frame. The first `total` frames go to the sink, in order, one at a time; behind each push
  // `fed` hears how many went so far. Both are called in the feed's thread alone, and outlive it.
  FrameFeed(FrameSink& sink, size_t frame_bytes, int total, std::function<void(int sent)> fed);
  ~FrameFeed();  // what has not begun to go is left out
  FrameFeed(const FrameFeed&) = delete;
  FrameFeed& operator=(const FrameFeed&) = delete;

  // Whole frames, which stay as they are until the feed ends. Throws what the sink or `fed` has thrown; so does finish.
  void push(std::span<const uint8_t> frames);
  void finish(const std::stop_token& stop);  // waits until all have gone; Error(cancelled) if asked to stop before

 private:
  void work();
  bool take(std::span<const uint8_t>& frames);
  void rethrow() const;  // under the lock

  FrameSink& sink_;
  const size_t frame_bytes_;
  const int total_;
  const std::function<void(int)> fed_;
  int sent_ = 0;  // the thread's own
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::span<const uint8_t>> waiting_;
  bool busy_ = false;
  std::atomic<bool> ends_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace zoetrope
