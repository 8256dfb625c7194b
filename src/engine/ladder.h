// The memory ladder: of the ways to work, the first one that the machine has room for, before any weight is read.
#pragma once
#include "engine/dry_runs.h"
#include "engine/host_memory.h"

namespace zoetrope {

// All ranks call it alike. The cost of the first rung that fits; AgreedError(out_of_memory) where none does, in one
// line: what is needed, what there is, and on one rank what would fit. `room`: what the regions keep for other shapes
// if there is enough for all weights beside it; the cost then says so.
Cost choose_rung(Ctx& c, Comm& world, DryRuns& runs, const Request& request, const MemoryNow& now,
                 const MemoryNeed& room = {});

// Of a job whose regions keep `room`, too. All weights stay, and so no page goes between its stages.
Cost with_room(Cost cost, const MemoryNeed& room, size_t page_grain);

// "--dtype bf16, --num-frames 33 or --size 832x480 would fit": each by itself. Empty: nothing that is known.
std::string what_would_fit(const DryModel& model, const Request& request, int64_t available);

}  // namespace zoetrope
