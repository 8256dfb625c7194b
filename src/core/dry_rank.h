// A rank that counts instead of works: no back end, nobody's memory. What runs in its context takes addresses, states
// its operations and launches nothing.
#pragma once
#include "core/ctx.h"

namespace zoetrope {

struct DryRank {
  explicit DryRank(const Traits& traits = {}) : c(prepare(traits)) {}
  operator Ctx&() { return c; }

  Pool pool{1};
  Rank rank;
  Ctx c;

 private:
  Rank& prepare(const Traits& traits) {
    rank.traits = traits;
    rank.pool = &pool;
    return rank;
  }
};

}  // namespace zoetrope
