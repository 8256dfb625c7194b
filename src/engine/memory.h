// What a request will need, from a dry run of the very code that will work, and what the machine has.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "comm/comm.h"
#include "config/request.h"
#include "core/ctx.h"
#include "models/source.h"
#include "pipeline/layout.h"
#include "sched/schedule.h"

namespace zoetrope {

std::map<std::string, int64_t> weights_of(const Rank& rank);  // bytes by component, shared or not

struct MemoryNeed {
  std::map<std::string, int64_t> weights;  // by component
  int64_t request = 0, scratch = 0, exchange = 0;

  int64_t total() const;
};

struct Cost {
  MemoryNeed memory;
  std::map<std::string, int64_t> slices;  // of weights, "component/slice": what ranks of one process share
  double forward_flops = 0;               // one pass of the (first) transformer
  double total_flops = 0;                 // the whole request
};

// One rank of a mesh.
struct MeshRank {
  Layout layout;
  int rank = 0;
};

Cost dry_run(const ModelSource& source, const Request& request, const Traits& traits, DType dtype, DType vae_dtype,
             const MeshRank& at = {});

int64_t available_memory();  // bytes that the host has left and a limit on addresses (ulimit -v) leaves
// Error(out_of_memory) with one line: what is needed, by region, and what there is.
void check_memory(const MemoryNeed& need, int64_t available);

}  // namespace zoetrope
