#include "engine/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

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

Cost dry_run(const DryModel& model, const Request& request, const MeshRank& at, Residency residency) {
  DryRank dry(model.traits);
  SharedWeights shared;
  dry.rank.shared = &shared;
  DryVideo video = dry_video(dry, model.source, request, model.dtype, model.vae_dtype, at.layout, at.rank, residency);
  Cost cost{residency, peaks_of(video.memory), std::move(video.memory),
            static_cast<int64_t>(model.traits.fixed_memory)};
  cost.total_flops = flops_of(dry.rank.counts);
  cost.forward_flops = dry_forward(model.source, request, model.traits, model.dtype).flops;
  return cost;
}

int64_t available_memory() { return std::min(available_pages(), available_addresses()); }

}  // namespace zoetrope
