#include "core/stream.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace zoetrope {
namespace {

class InlineStream final : public Stream {
 public:
  bool immediate() const override { return true; }
  void submit(Job job) override { job(); }
  Event record() override { return {this, 0}; }
  void wait(const Event& e) override {
    if (e.stream && e.stream != this) e.stream->block_until(e.number);
  }
  void sync() override {}
  void block_until(uint64_t) override {}  // what was issued here is already done
};

class ThreadStream final : public Stream {
 public:
  ThreadStream() : thread_([this] { work(); }) {}
  ~ThreadStream() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  bool immediate() const override { return false; }

  void submit(Job job) override {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
      ++issued_;
    }
    wake_.notify_all();
  }

  Event record() override {
    const std::lock_guard lock(mutex_);
    return {this, issued_};
  }

  void wait(const Event& e) override {
    if (e.stream && e.stream != this) submit([e] { e.stream->block_until(e.number); });
  }

  void sync() override {
    std::unique_lock lock(mutex_);
    block_until(issued_, lock);
    if (const auto error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  }

  void block_until(uint64_t number) override {
    std::unique_lock lock(mutex_);
    block_until(number, lock);
  }

 private:
  void block_until(uint64_t number, std::unique_lock<std::mutex>& lock) {
    done_.wait(lock, [&] { return finished_ >= number; });
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      if (!error_) {  // after a failure the rest is skipped, so that nobody waits for ever
        lock.unlock();
        std::exception_ptr error;
        try {
          job();
        } catch (...) {
          error = std::current_exception();
        }
        lock.lock();
        error_ = error;
      }
      ++finished_;
      done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<Job> jobs_;
  uint64_t issued_ = 0, finished_ = 0;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace

void Stream::upload(const void* from, void* to, size_t bytes) {
  sync();
  std::memcpy(to, from, bytes);
}

void Stream::download(const void* from, void* to, size_t bytes) { upload(from, to, bytes); }

void Stream::copy(const void* from, void* to, size_t bytes) { std::memcpy(to, from, bytes); }

std::unique_ptr<Stream> inline_stream() { return std::make_unique<InlineStream>(); }
std::unique_ptr<Stream> thread_stream() { return std::make_unique<ThreadStream>(); }

}  // namespace zoetrope
