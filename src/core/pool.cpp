#include "core/pool.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "core/stop.h"

namespace zoetrope {

namespace {

void end(std::mutex& mutex, bool& stop, std::condition_variable& wake, std::vector<std::thread>& workers) {
  {
    const std::lock_guard lock(mutex);
    stop = true;
  }
  wake.notify_all();
  for (auto& worker : workers) worker.join();
}

}  // namespace

Pool::Pool(int threads) {
  require(threads >= 1 && threads <= 4096, "threads: ", threads, " asked for, 1 to 4096 make sense");
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // no destructor runs for what was not made
    const size_t started = workers_.size() + 1;
    end(mutex_, stop_, wake_, workers_);
    fail(Code::out_of_memory, "threads: the system gives no more than ", started, " of the ", threads, " asked for");
  }
}

Pool::~Pool() { end(mutex_, stop_, wake_, workers_); }

void Pool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || (batch_ && batch_->next < batch_->n); });
    if (stop_) return;
    help(*batch_, lock);
  }
}

// Takes pieces until none is left. Called and returns with the lock held.
void Pool::help(Batch& batch, std::unique_lock<std::mutex>& lock) {
  ++batch.running;
  while (batch.next < batch.n) {
    const int64_t begin = batch.next, end = std::min(batch.n, begin + batch.grain);
    batch.next = end;
    lock.unlock();
    std::exception_ptr error;
    try {
      check_stop(*batch.stop);
      (*batch.body)(begin, end);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      if (!batch.error) batch.error = error;
      batch.next = batch.n;
    }
  }
  if (--batch.running == 0) done_.notify_all();
}

void Pool::for_each(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body,
                    const std::stop_token& stop) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  std::unique_lock mine(busy_, std::defer_lock);
  if (n <= grain || workers_.empty() || !mine.try_lock()) {
    for (int64_t begin = 0; begin < n; begin += grain) {
      check_stop(stop);
      body(begin, std::min(n, begin + grain));
    }
    return;
  }
  Batch batch{&body, &stop, n, grain, 0, 0, nullptr};
  std::unique_lock lock(mutex_);
  batch_ = &batch;
  wake_.notify_all();
  help(batch, lock);
  done_.wait(lock, [&] { return batch.running == 0; });
  batch_ = nullptr;
  lock.unlock();
  if (batch.error) std::rethrow_exception(batch.error);
}

}  // namespace zoetrope
