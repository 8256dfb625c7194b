// The context: first argument of everything that works. Names the back end, the stream, the memory regions and the
// thread pool of one rank; nothing here is global. Host code is single-threaded per rank: one thread issues, in program
// order, on the main context and on a fork's; the jobs themselves may run elsewhere.
#pragma once
#include <chrono>
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/intake.h"
#include "core/pool.h"
#include "core/region.h"
#include "core/stop.h"
#include "core/stream.h"
#include "core/tensor.h"
#include "core/traits.h"
#include "core/weights.h"

namespace zoetrope {

class Backend;  // ops/backend.h
class Ctx;

// What an op states about itself, once, for the profiler, bench and the planner.
struct OpInfo {
  const char* name;
  double flops = 0;
  int64_t bytes = 0;  // least traffic: inputs once, outputs once
};

struct OpCount {
  int64_t calls = 0;
  double flops = 0;
  int64_t bytes = 0;
  double seconds = 0;  // until the op is done, where the stream is immediate; 0 unless profiling
};
using OpCounts = std::map<std::string_view, OpCount>;
double flops_of(const OpCounts& counts);  // of all ops together
// What was called in between: calls, flops and bytes; seconds stay those of `after`.
OpCounts difference(const OpCounts& after, const OpCounts& before);

// Called with each named intermediate and a reader that copies it to the host; parity, eval and the oracle rest on it.
using Tap = std::function<void(Ctx& c, std::string_view name, const Tensor& value)>;

// Records a piece of work once per key and replays it where the device can (CUDA graphs); without one it just runs.
class Segments {
 public:
  virtual ~Segments() = default;
  virtual void run(Ctx& c, std::string_view key, const std::function<void()>& body) = 0;
  virtual void clear() {}  // addresses that recordings hold become invalid
  // Pages above so many bytes of the request and scratch regions are gone.
  virtual void trimmed([[maybe_unused]] size_t request, [[maybe_unused]] size_t scratch) { clear(); }
};

struct DeviceMemory {
  int64_t free = 0, total = 0;  // bytes
};

// Everything that the contexts of one rank share.
struct Rank {
  Traits traits;
  Backend* backend = nullptr;  // null: dry
  Pool* pool = nullptr;
  std::unique_ptr<Stream> main = inline_stream(), side;  // side is made by the first Fork
  std::function<std::unique_ptr<Stream>()> make_side = thread_stream;
  std::function<std::unique_ptr<Pages>(size_t)> make_pages = host_pages;
  std::function<void()> enter_thread = [] {};   // called first by each thread that works for this rank
  std::function<DeviceMemory()> device_memory;  // of a device with memory of its own, whoever took it; null: the host's
  size_t memory_limit = SIZE_MAX;               // per region
  // Where a device converts what files hold: made by the first load, with so many readers. Null: the host does it.
  std::function<std::unique_ptr<Intake>(const Intake::Buffers&)> make_intake;
  std::unique_ptr<Intake> intake;
  SharedWeights* shared = nullptr;  // with the other ranks of this device; null: this rank shares nothing
  // By component, what this rank uses: one region, named "", or one for each slice that it shares.
  std::map<std::string, std::map<std::string, std::shared_ptr<Region>>> weights;
  std::unique_ptr<Region> request, scratch, exchange;
  std::unique_ptr<Segments> segments;
  OpCounts counts;
  bool profile = false;
  Tap tap;
  std::stop_token stop;  // of the job that runs, see StopScope
  int open_forks = 0;
};

// While it lives, `stop` ends what the rank does: the next op that is issued and the next piece of one that runs throw
// Error(cancelled). Made and ended while the rank does nothing.
class StopScope {
 public:
  StopScope(Rank& rank, std::stop_token stop) : rank_(rank) { rank.stop = std::move(stop); }
  ~StopScope() { rank_.stop = {}; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  Rank& rank_;
};

class Ctx {
 public:
  explicit Ctx(Rank& rank);  // the main context; makes the regions that are missing

  bool dry() const { return rank_.backend == nullptr; }
  const Traits& traits() const { return rank_.traits; }
  Workers pool() const { return {*rank_.pool, rank_.stop}; }
  Stream& stream() const { return *stream_; }
  Rank& rank() const { return rank_; }

  // Memory. Scratch is scoped: Scope scope(c.scratch()); request lives until the job ends.
  Region& scratch() const { return *rank_.scratch; }
  Region& request() const { return *rank_.request; }
  Region& exchange() const { return *rank_.exchange; }
  Region& weights(const std::string& component) const;  // made on first use
  // The tensors of a slice of a component: `load` takes them from the region and fills them, unless a rank that shares
  // this device has done it.
  std::vector<Tensor> load_weights(const std::string& component, const std::string& slice,
                                   const SharedWeights::Load& load) const;
  void drop_weights(const std::string& component) const;
  void rename_weights(const std::string& from, const std::string& to) const;  // they were filled with another's
  Tensor empty(const Shape& shape, DType type) const { return empty(shape, type, scratch()); }
  Tensor empty(const Shape& shape, DType type, Region& region) const;
  Tensor empty_like(const Tensor& x) const { return empty(x.shape(), x.dtype()); }

  // Error(cancelled) once the rank's job was asked to stop. `run` asks, too; what takes long beside ops asks itself.
  void check_stop() const { zoetrope::check_stop(rank_.stop); }

  // Counts the op and hands `body(Backend&)` (ops) or `body()` (collectives) to the stream. A body captures by value:
  // on a fork it runs later, in another thread.
  template <class F>
  void run(const OpInfo& info, F body);

  // Host <-> device. upload copies before it returns. fetch waits for the stream; dry contexts get `dry_value`.
  void upload(const void* from, const Tensor& to);
  template <class T>
  void upload(std::span<const T> from, const Tensor& to);
  void download(const Tensor& from, void* to);
  template <class T>
  std::vector<T> fetch(const Tensor& from, T dry_value);

  void tap(std::string_view name, const Tensor& value) {
    if (rank_.tap) [[unlikely]]
      rank_.tap(*this, name, value);
  }
  void segment(std::string_view key, const std::function<void()>& body);
  OpCounts& counts() const { return rank_.counts; }

 private:
  friend class Fork;
  Ctx(Rank& rank, Stream& stream) : rank_(rank), stream_(&stream) {}
  void count(const OpInfo& info, double seconds) const;

  Rank& rank_;
  Stream* stream_;
};

// The only way to a side stream. Starts after all that the parent issued; joins at the end of the scope it was made in.
// An error on the side is rethrown by the join (unless another is already on its way).
class Fork {
 public:
  explicit Fork(Ctx& parent);
  ~Fork() noexcept(false);
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;

  operator Ctx&() { return side_; }
  Ctx& ctx() { return side_; }
  void after_parent();   // later side work starts after all that the parent has issued by now
  void before_parent();  // later parent work starts after all that this side has issued by now

 private:
  Ctx& parent_;
  Ctx side_;
  size_t scratch_mark_;  // debug: what was open when it began must still be open when it joins
  int exceptions_;
};

template <class F>
void Ctx::run(const OpInfo& info, F body) {
  auto call = [backend = rank_.backend, body = std::move(body)]() mutable {
    if constexpr (std::invocable<F&, Backend&>)
      body(*backend);
    else
      body();
  };
  check_stop();
  if (dry() || !rank_.profile) count(info, 0);
  if (dry()) return;
  if (!stream_->immediate()) return stream_->submit(std::move(call));
  if (!rank_.profile) return call();
  const auto from = std::chrono::steady_clock::now();
  call();
  stream_->sync();  // a device has only been told
  count(info, std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count());
}

template <class T>
void Ctx::upload(std::span<const T> from, const Tensor& to) {
  assert(dtype_of<T> == to.dtype() && static_cast<int64_t>(from.size()) == to.size());
  upload(from.data(), to);
}

template <class T>
std::vector<T> Ctx::fetch(const Tensor& from, T dry_value) {
  assert(dtype_of<T> == from.dtype());
  std::vector<T> host(static_cast<size_t>(from.size()), dry_value);
  if (!dry()) download(from, host.data());
  return host;
}

}  // namespace zoetrope
