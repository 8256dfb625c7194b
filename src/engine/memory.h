// What a request will need, from dry runs of the very code that will work, and what the machine has.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "comm/comm.h"
#include "config/request.h"
#include "core/ctx.h"
#include "models/source.h"
#include "pipeline/layout.h"
#include "pipeline/memory.h"
#include "sched/schedule.h"

namespace zoetrope {

// Of one rank.
struct Cost {
  Residency residency = Residency::all;
  MemoryNeed memory;                // the most of each region, to the byte
  std::vector<StageMemory> stages;  // what it holds at one time
  int64_t fixed = 0;                // beside the regions: work slots and libraries of the device
  double forward_flops = 0;         // one pass of the (first) transformer
  double total_flops = 0;           // the whole request
};

// One rank of a mesh.
struct MeshRank {
  Layout layout;
  int rank = 0;
};

// What a dry run needs besides a request; the source is borrowed.
struct DryModel {
  const ModelSource& source;
  Traits traits;
  DType dtype, vae_dtype;
};

Cost dry_run(const DryModel& model, const Request& request, const MeshRank& at = {},
             Residency residency = Residency::all);

int64_t available_memory();  // bytes that the host has left and a limit on addresses (ulimit -v) leaves

}  // namespace zoetrope
