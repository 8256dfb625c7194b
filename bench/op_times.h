// What each op takes on the device: the stream is held back until the op and the events around it are queued, so that
// no time of the host counts. Ops are issued as ever and one at a time, which a stream that is not immediate hands
// over.
#pragma once
#include <cuda_runtime.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/error.h"
#include "core/ctx.h"

namespace zoetrope::bench {

inline void check(cudaError_t e) {
  if (e != cudaSuccess) fail(Code::device, "bench: ", cudaGetErrorString(e));
}

class Watch {
 public:
  explicit Watch(cudaStream_t stream) : stream_(stream) {
    check(cudaEventCreate(&from_));
    check(cudaEventCreate(&to_));
  }
  ~Watch() { cudaEventDestroy(from_), cudaEventDestroy(to_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  void start() { check(cudaEventRecord(from_, stream_)); }
  void stop() { check(cudaEventRecord(to_, stream_)); }
  double ms() const {
    float ms = 0;
    check(cudaEventSynchronize(to_));
    check(cudaEventElapsedTime(&ms, from_, to_));
    return static_cast<double>(ms);
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t from_ = nullptr, to_ = nullptr;
};

class OpTimes final : public Stream {
 public:
  OpTimes(Stream& inner, const OpCounts& counts)
      : inner_(inner), counts_(counts), watch_(static_cast<cudaStream_t>(inner.native())) {
    for (const auto& [name, count] : counts) calls_[name] = count.calls;
  }

  bool hold = false;                           // false: a run to warm up, whose ops may wait for the stream
  std::map<std::string_view, double> seconds;  // of each op, by name

  bool immediate() const override { return false; }
  void submit(Job job) override {
    const std::string_view name = just_counted();
    go_ = !hold;
    check(cudaLaunchHostFunc(static_cast<cudaStream_t>(native()), wait_for, &go_));
    watch_.start();
    job();
    watch_.stop();
    go_ = true;
    seconds[name] += watch_.ms() / 1e3;
  }
  Event record() override { return inner_.record(); }
  void wait(const Event& e) override { inner_.wait(e); }
  void sync() override { inner_.sync(); }
  void block_until(uint64_t number) override { inner_.block_until(number); }
  void* native() const override { return inner_.native(); }
  void upload(const void* from, void* to, size_t bytes) override { inner_.upload(from, to, bytes); }
  void download(const void* from, void* to, size_t bytes) override { inner_.download(from, to, bytes); }

 private:
  static void wait_for(void* go) {  // at most 2 s, in case an op waits after all
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (!*static_cast<std::atomic<bool>*>(go) && std::chrono::steady_clock::now() < end) {
    }
  }
  // A context counts an op right before it submits it.
  std::string_view just_counted() {
    for (const auto& [name, count] : counts_)
      if (int64_t& calls = calls_[name]; calls != count.calls) return calls = count.calls, name;
    fail(Code::device, "bench: an op was not counted");
  }

  Stream& inner_;
  const OpCounts& counts_;
  std::map<std::string_view, int64_t> calls_;
  std::atomic<bool> go_ = true;
  Watch watch_;
};

// The ops of body, after a run to warm up, the mean of `runs`.
inline OpCounts op_times(Rank& rank, int runs, const std::function<void(Ctx&)>& body) {
  std::unique_ptr<Segments> segments = std::move(rank.segments);
  std::unique_ptr<Stream> own = std::move(rank.main);
  auto timed = std::make_unique<OpTimes>(*own, rank.counts);
  OpTimes& times = *timed;
  rank.main = std::move(timed);
  OpCounts counts;
  {
    Ctx c(rank);
    body(c);
    times.seconds.clear();
    times.hold = true;
    const OpCounts before = rank.counts;
    for (int i = 0; i < runs; ++i) body(c);
    counts = rank.counts;
    for (auto& [name, count] : counts)
      if (const auto old = before.find(name); old != before.end())
        count.calls -= old->second.calls, count.flops -= old->second.flops, count.bytes -= old->second.bytes;
  }
  std::erase_if(counts, [](const auto& row) { return row.second.calls == 0; });
  for (auto& [name, count] : counts)
    count.calls /= runs, count.flops /= runs, count.bytes /= runs, count.seconds = times.seconds[name] / runs;
  rank.main = std::move(own);
  rank.segments = std::move(segments);
  return counts;
}

}  // namespace zoetrope::bench
