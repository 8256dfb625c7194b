#include "comm/waits.h"

#include <algorithm>

#include "base/error.h"

namespace zoetrope {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr size_t remembered = 32;

}  // namespace

const char* name(Wait kind) {
  constexpr const char* names[wait_kinds] = {"idle", "bootstrap", "load", "tune", "step", "vae chunk"};
  return names[static_cast<size_t>(kind)];
}

Waits::Waits() : limits_{none, seconds(120), minutes(30), minutes(30), seconds(120), seconds(120)} {}

void Waits::set(Wait kind, Limit limit) {
  require(limit > Limit::zero(), "waits: a limit of 0 for class ", name(kind), " would refuse every peer");
  limits_[static_cast<size_t>(kind)] = limit;
  history_[static_cast<size_t>(kind)].fixed = true;
}

void Waits::observe(Wait kind, Limit took) {
  History& history = history_[static_cast<size_t>(kind)];
  if (history.fixed) return;
  if (history.last.size() < remembered)
    history.last.push_back(took);
  else
    history.last[history.next++ % remembered] = took;
  std::vector<Limit> sorted = history.last;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  limits_[static_cast<size_t>(kind)] = std::max<Limit>(seconds(10), 20 * *middle);
}

void Waits::observe(Wait kind, double seconds) {
  observe(kind, std::chrono::duration_cast<Limit>(std::chrono::duration<double>(seconds)));
}

}  // namespace zoetrope
