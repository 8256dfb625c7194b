// The memory ladder: of the ways to work, the first one that the machine has room for, before any weight is read.
#pragma once
#include "engine/dry_runs.h"
#include "engine/host_memory.h"

namespace zoetrope {

// All ranks call it alike. The cost of the first rung that fits, good until the next dry run;
// AgreedError(out_of_memory) where none does, in one line: what is needed, what there is, and on one rank what would
// fit.
const Cost& choose_rung(Ctx& c, Comm& world, DryRuns& runs, const Request& request, const MemoryNow& now);

// "--dtype bf16, --num-frames 33 or --size 832x480 would fit": each by itself. Empty: nothing that is known.
std::string what_would_fit(const DryModel& model, const Request& request, int64_t available);

}  // namespace zoetrope
