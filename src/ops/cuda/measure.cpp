#include "ops/cuda/measure.h"

#include <algorithm>
#include <optional>

#include "ops/cuda/check.h"
#include "ops/cuda/handles.h"
#include "ops/cuda/kernels.h"

namespace zoetrope::cuda {
namespace {

constexpr size_t finalists = 4;
constexpr int rough_runs = 2, rounds = 7;
constexpr double worth = 0.99;  // of the first's time, or the first stays

class Clock {
 public:
  explicit Clock(cudaStream_t stream)
      : stream_(stream), from_(make_event(cudaEventDefault)), to_(make_event(cudaEventDefault)) {}

  double us(const std::function<void()>& body) {
    check(cudaEventRecord(from_.get(), stream_));
    body();
    check(cudaEventRecord(to_.get(), stream_));
    check(cudaEventSynchronize(to_.get()));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, from_.get(), to_.get()));
    return 1e3 * static_cast<double>(ms);
  }

 private:
  cudaStream_t stream_;
  EventHandle from_, to_;
};

class Digest {
 public:
  explicit Digest(cudaStream_t stream) : stream_(stream) {
    void* at = nullptr;
    check(cudaMalloc(&at, sizeof(unsigned long long)));
    sum_.reset(at);
  }
  unsigned long long of(const std::vector<Tensor>& results) {
    auto* at = static_cast<unsigned long long*>(sum_.get());
    check(cudaMemsetAsync(at, 0, sizeof *at, stream_));
    for (const Tensor& x : results) digest(stream_, x, at);
    unsigned long long value = 0;
    check(cudaMemcpyAsync(&value, at, sizeof value, cudaMemcpyDeviceToHost, stream_));
    check(cudaStreamSynchronize(stream_));
    return value;
  }

 private:
  cudaStream_t stream_;
  DeviceBuffer sum_;
};

double median(std::vector<double> all) {
  std::ranges::sort(all);
  return all[all.size() / 2];
}

}  // namespace

Fastest fastest(cudaStream_t stream, size_t candidates, const std::function<void(size_t)>& run,
                const std::vector<Tensor>& results) {
  Clock clock(stream);
  Digest bits(stream);
  run(0);
  const unsigned long long wanted = bits.of(results);
  std::vector<std::pair<double, size_t>> rough;
  for (size_t i = 0; i < candidates; ++i) {
    run(i);
    if (bits.of(results) != wanted) continue;
    double least = clock.us([&] { run(i); });
    for (int time = 1; time < rough_runs; ++time) least = std::min(least, clock.us([&] { run(i); }));
    rough.emplace_back(i == 0 ? 0 : least, i);  // the first is always in the final
  }
  std::ranges::sort(rough);
  rough.resize(std::min(rough.size(), finalists + 1));
  std::vector<std::vector<double>> times(rough.size());
  for (int round = 0; round < rounds; ++round)
    for (size_t f = 0; f < rough.size(); ++f) times[f].push_back(clock.us([&] { run(rough[f].second); }));
  Fastest result{0, median(times[0]), median(times[0])};
  for (size_t f = 1; f < rough.size(); ++f)
    if (const double us = median(times[f]); us < result.us && us < worth * result.first_us)
      result.best = rough[f].second, result.us = us;
  return result;
}

}  // namespace zoetrope::cuda
