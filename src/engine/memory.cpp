#include "engine/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "base/units.h"
#include "pipeline/dry_forward.h"

namespace zoetrope {

namespace {

constexpr int64_t unknown = std::numeric_limits<int64_t>::max();  // not a Linux that tells

// A line "Key: 123 kB" of a file in /proc, as bytes.
int64_t bytes_in(const char* file, std::string_view wanted) {
  std::ifstream info(file);
  std::string key, rest;
  int64_t kibibytes = 0;
  while (info >> key && std::getline(info, rest))
    if (key == wanted && std::istringstream(rest) >> kibibytes) return kibibytes * 1024;
  return unknown;
}

int64_t available_pages() { return bytes_in("/proc/meminfo", "MemAvailable:"); }

// What a limit on the addresses of this process (ulimit -v) leaves.
int64_t available_addresses() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(unknown)) return unknown;
  const int64_t taken = bytes_in("/proc/self/status", "VmSize:");
  return taken == unknown ? unknown : std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - taken);
}

}  // namespace

std::map<std::string, int64_t> weights_of(const Rank& rank) {
  std::map<std::string, int64_t> bytes;
  for (const auto& [component, regions] : rank.weights)
    for (const auto& region : regions) bytes[component] += static_cast<int64_t>(region->peak());
  return bytes;
}

int64_t MemoryNeed::total() const {
  int64_t sum = request + scratch + exchange;
  for (const auto& [component, bytes] : weights) sum += bytes;
  return sum;
}

Cost dry_run(const ModelSource& source, const Request& request, const Traits& traits, DType dtype, DType vae_dtype,
             const MeshRank& at) {
  DryRank dry(traits);
  SharedWeights shared;
  dry.rank.shared = &shared;
  Ctx& c = dry.c;
  dry_video(dry, source, request, dtype, vae_dtype, at.layout, at.rank);

  Cost cost;
  for (const SharedWeights::Held& held : shared.held())
    cost.slices[cat(held.component, '/', held.slice)] = static_cast<int64_t>(held.bytes);
  cost.memory.weights = weights_of(dry.rank);
  cost.memory.request = static_cast<int64_t>(c.request().peak());
  cost.memory.scratch = static_cast<int64_t>(c.scratch().peak());
  cost.memory.exchange = static_cast<int64_t>(c.exchange().peak());
  cost.total_flops = flops_of(dry.rank.counts);
  cost.forward_flops = dry_forward(source, request, traits, dtype).flops;
  return cost;
}

int64_t available_memory() { return std::min(available_pages(), available_addresses()); }

void check_memory(const MemoryNeed& need, int64_t available) {
  if (need.total() <= available) return;
  std::string weights;
  for (const auto& [component, bytes] : need.weights)
    weights += cat(weights.empty() ? "" : ", ", component, " ", human_bytes(bytes));
  fail(Code::out_of_memory, "memory: this request needs ", human_bytes(need.total()), " (", weights, ", request ",
       human_bytes(need.request), ", scratch ", human_bytes(need.scratch), "), ", human_bytes(available),
       " are free; a smaller size, fewer frames or --dtype bf16 needs less");
}

}  // namespace zoetrope
