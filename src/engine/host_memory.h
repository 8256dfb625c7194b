// Ranks of one host share its memory: what they need together, against what it has.
#pragma once
#include "comm/comm.h"
#include "engine/memory.h"

namespace zoetrope {

// Every rank says what it needs, and whether it has its weights, and how much is `free`
// on its device or host. AgreedError(out_of_memory) where the ranks of a host
// need more together than it has; what they hold already is there for the next job, too. True where all have weights.
bool check_hosts(Ctx& c, Comm& world, const Cost& cost, bool loaded, int64_t free);

}  // namespace zoetrope
