// Ranks as threads.
#pragma once
#include <chrono>
#include <functional>
#include <thread>

#include "comm/local/world.h"
#include "support/cpu_ctx.h"

namespace zoetrope {

// On the device that is linked; with little memory each on the CPU (ThreadSanitizer leaves few addresses).
class Ranks {
 public:
  explicit Ranks(int n) {
    for (int i = 0; i < n; ++i) backends_.push_back(device::make_backend());
    for (int kind = 0; kind < wait_kinds; ++kind) waits_.set(static_cast<Wait>(kind), std::chrono::seconds(60));
  }

  void run(const std::function<void(Ctx& c, Comm& world)>& body,
           const std::function<std::unique_ptr<Stream>()>& side = nullptr) {
    const auto prepare = [&](Rank& rank, int number) {
      device::prepare(rank, *backends_[static_cast<size_t>(number)]);
      rank.pool = &pool_;
      if (side) rank.make_side = side;
      if (rank.traits.device == DeviceKind::cpu) rank.make_pages = [](size_t) { return host_pages(size_t{64} << 20); };
    };
    run_ranks(static_cast<int>(backends_.size()), prepare, body, waits_);
  }

 private:
  std::vector<std::unique_ptr<Backend>> backends_;
  Pool pool_{1};
  Waits waits_;
};

// What nobody wrote shows as NaN.
inline void poison(Region& region, size_t bytes) {
  const Scope scope(region);
  device::poison(region.take(bytes), bytes);
}

}  // namespace zoetrope
