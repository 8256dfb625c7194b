#include "pipeline/frame_feed.h"

#include <utility>

namespace zoetrope {

FrameFeed::FrameFeed(FrameSink& sink, size_t frame_bytes, int total, std::function<void(int)> fed)
    : sink_(sink), frame_bytes_(frame_bytes), total_(total), fed_(std::move(fed)), thread_([this] { work(); }) {}

FrameFeed::~FrameFeed() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void FrameFeed::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

void FrameFeed::push(std::span<const uint8_t> frames) {
  {
    const std::lock_guard lock(mutex_);
    rethrow();
    waiting_.push_back(frames);
  }
  wake_.notify_all();
}

void FrameFeed::finish(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, stop, [&] { return error_ || (waiting_.empty() && !busy_); });
  rethrow();
  check_stop(stop);
}

// The next that were pushed; false once the feed ends.
bool FrameFeed::take(std::span<const uint8_t>& frames) {
  std::unique_lock lock(mutex_);
  busy_ = false;
  wake_.notify_all();
  wake_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
  if (ends_) return false;
  frames = waiting_.front(), waiting_.pop_front();
  return busy_ = true;
}

void FrameFeed::work() try {
  for (std::span<const uint8_t> frames; take(frames);) {
    for (size_t at = 0; at < frames.size() && sent_ < total_; at += frame_bytes_, ++sent_) {
      if (ends_) return;
      sink_.frame(frames.subspan(at, frame_bytes_));
    }
    fed_(sent_);
  }
} catch (...) {
  const std::lock_guard lock(mutex_);
  error_ = std::current_exception();
  wake_.notify_all();
}

}  // namespace zoetrope
