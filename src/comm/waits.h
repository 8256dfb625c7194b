// How long a rank waits for its peers. A wait belongs to a class, because a rank that loads 57 GB keeps the others
// waiting for a good reason and a rank that takes minutes over one step does not. Each rank has one Waits, shared by
// all of its communicators; a call keeps the limit that held when it was issued.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/deadline.h"

namespace zoetrope {

enum class Wait : uint8_t { idle, bootstrap, load, tune, step, vae_chunk };
inline constexpr int wait_kinds = 6;

const char* name(Wait kind);

class Waits {
 public:
  using Limit = std::chrono::nanoseconds;
  static constexpr Limit none = Limit::max();

  // idle: none; bootstrap 120 s; load, tune 30 min; step, vae_chunk: max(10 s, 20 x the median of those observed),
  // and 120 s before the first is known.
  Waits();

  Wait now() const { return now_; }
  void enter(Wait kind) { now_ = kind; }
  Limit limit() const { return limit(now_); }
  Limit limit(Wait kind) const { return limits_[static_cast<size_t>(kind)]; }

  void set(Wait kind, Limit limit);     // fixed from now on, whatever is observed
  void observe(Wait kind, Limit took);  // how long one step or one chunk took
  void observe(Wait kind, double seconds);

 private:
  struct History {
    std::vector<Limit> last;  // the last 32
    size_t next = 0;
    bool fixed = false;
  };

  Wait now_ = Wait::bootstrap;
  std::array<Limit, wait_kinds> limits_;
  std::array<History, wait_kinds> history_;
};

// Enters a class and goes back to the one before at the end of the scope.
class Waiting {
 public:
  Waiting(Waits& waits, Wait kind) : waits_(waits), before_(waits.now()) { waits_.enter(kind); }
  ~Waiting() { waits_.enter(before_); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  Waits& waits_;
  Wait before_;
};

inline Deadline deadline_of(Waits::Limit limit) {
  return limit == Waits::none ? Deadline::never() : Deadline::in(limit);
}

}  // namespace zoetrope
