// The one thread pool. Work is cut into pieces whose bounds depend on (n, grain) alone, never on the number of threads:
// as long as no result crosses a piece, results are the same on any pool.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace zoetrope {

class Pool {
 public:
  explicit Pool(int threads);  // the caller is one of them; 1 starts none
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end) over [0, n) in pieces of at most `grain`, and returns when all are done; the first exception
  // is rethrown. A caller that finds the pool busy (another rank, a nested call) runs its pieces itself. Once a stop
  // was asked for no further piece begins and Error(cancelled) is thrown.
  void for_each(int64_t n, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body,
                const std::stop_token& stop = {});

 private:
  struct Batch {
    const std::function<void(int64_t, int64_t)>* body;
    const std::stop_token* stop;
    int64_t n, grain, next = 0;  // next piece to hand out, under mutex_
    int running = 0;
    std::exception_ptr error;
  };

  void work();
  void help(Batch& batch, std::unique_lock<std::mutex>& lock);

  std::mutex busy_;  // held by the caller whose batch runs
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Batch* batch_ = nullptr;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

// The pool as the job of one rank uses it: until that job is asked to stop. A plain value, made by Ctx::pool().
class Workers {
 public:
  Workers(Pool& pool, const std::stop_token& stop) : pool_(pool), stop_(stop) {}

  int threads() const { return pool_.threads(); }
  void for_each(int64_t n, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body) const {
    pool_.for_each(n, grain, body, stop_);
  }

 private:
  Pool& pool_;
  const std::stop_token& stop_;
};

}  // namespace zoetrope
