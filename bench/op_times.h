// What each op takes where it runs: right behind the replays of the same work, on a card that is as warm and as busy,
// with events before and after each op and no wait of the host until the last. The replay in front is what holds the
// ops back until the host has issued them; an op that the device reached before it was issued spoils its round, which
// is measured again, or is said so loudly that no number is given.
#pragma once
#include <cuda_runtime.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "core/ctx.h"
#include "eval/timing.h"

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
  bool begun() const;  // the device has come to its start
  void wait_begun() const { check(cudaEventSynchronize(from_)); }
  double ms() const {
    float ms = 0;
    check(cudaEventSynchronize(to_));
    check(cudaEventElapsedTime(&ms, from_, to_));
    return static_cast<double>(ms);
  }
  double ms_to(const Watch& later) const;  // from its start to the other's end

 private:
  cudaStream_t stream_;
  cudaEvent_t from_ = nullptr, to_ = nullptr;
};

struct InPlace {
  OpCounts ops;                     // of one run, seconds of the medians' run order: the mean over the rounds
  Spread replay, sum;               // ms: a replay, and its ops in place
  Spread span;                      // ms: those ops from the first's begin to the last's end, events and gaps included
  double events = 0;                // ms: what a pair of events with nothing between measures
  int spoilt = 0;                   // rounds
  std::string clock, clock_of_ops;  // of the card, in replays and in ops
};

// `body` is work that replays by now; it is run some 500 ms to warm the card up, then `rounds` times in turns.
InPlace in_place(Rank& rank, int rounds, const std::function<void(Ctx&)>& body);

struct Nodes {
  int64_t kernels = 0, copies = 0, sets = 0, others = 0;
  int64_t all() const { return kernels + copies + sets + others; }
};
// What the body is as one graph.
Nodes nodes_of(Rank& rank, const std::function<void(Ctx&)>& body);

}  // namespace zoetrope::bench
