// A point in time that a wait must not outlive. `Deadline::never()` is for waits of class idle.
#pragma once
#include <chrono>

namespace zoetrope {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline never() { return Deadline(Clock::time_point::max()); }
  static Deadline in(Clock::duration time) { return Deadline(Clock::now() + time); }

  bool endless() const { return at_ == Clock::time_point::max(); }
  bool passed() const { return !endless() && Clock::now() >= at_; }
  Clock::time_point at() const { return at_; }
  Clock::duration left() const;  // never negative

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

// Seconds since it was made.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Deadline::Clock::now() - from_).count(); }

 private:
  Deadline::Clock::time_point from_ = Deadline::Clock::now();
};

}  // namespace zoetrope
