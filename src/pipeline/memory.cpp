#include "pipeline/memory.h"

#include <algorithm>
#include <numeric>

#include "base/cat.h"

namespace zoetrope {
namespace {

int64_t sum_of(const std::map<std::string, int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0},
                         [](int64_t sum, const auto& row) { return sum + row.second; });
}

int64_t peak(const Region& region) { return static_cast<int64_t>(region.peak()); }
int64_t pages(const Region& region) { return static_cast<int64_t>(region.committed()); }

void raise(int64_t& most, int64_t value) { most = std::max(most, value); }

}  // namespace

int64_t MemoryNeed::total() const { return sum_of(weights) + request + scratch + exchange; }
int64_t StageMemory::total() const { return sum_of(slices) + pages; }

void trim(Rank& rank, const MemoryNeed& keep) {
  const bool request = rank.request->trim(static_cast<size_t>(keep.request));
  const bool scratch = rank.scratch->trim(static_cast<size_t>(keep.scratch));
  if ((request || scratch) && rank.segments)
    rank.segments->trimmed(rank.request->committed(), rank.scratch->committed());
}

StageMemory memory_at(const Rank& rank, Stage stage) {
  StageMemory memory;
  memory.stage = stage;
  memory.peaks = {{}, peak(*rank.request), peak(*rank.scratch), peak(*rank.exchange)};
  memory.pages = pages(*rank.request) + pages(*rank.scratch) + pages(*rank.exchange);
  for (const auto& [component, slices] : rank.weights)
    for (const auto& [slice, region] : slices) {
      memory.peaks.weights[component] += peak(*region);
      memory.slices[cat(component, '/', slice)] = pages(*region);
    }
  if (rank.device_memory) {
    const DeviceMemory device = rank.device_memory();
    memory.device = device.total - device.free;
  }
  return memory;
}

int64_t most_at_once(const std::vector<StageMemory>& stages) {
  int64_t most = 0;
  for (const StageMemory& stage : stages) raise(most, stage.total());
  return most;
}

MemoryNeed peaks_of(const std::vector<StageMemory>& stages) {
  MemoryNeed all;
  for (const auto& [stage, peaks, slices, pages, device] : stages) {
    for (const auto& [component, bytes] : peaks.weights) raise(all.weights[component], bytes);
    raise(all.request, peaks.request), raise(all.scratch, peaks.scratch), raise(all.exchange, peaks.exchange);
  }
  return all;
}

const char* name(Residency residency) {
  switch (residency) {
    case Residency::all:
      return "all";
    case Residency::text_encoder_leaves:
      return "text_encoder_leaves";
    case Residency::one_expert:
      return "one_expert";
  }
  return "unknown";
}

const char* words_of(Residency residency) {
  switch (residency) {
    case Residency::all:
      return "all weights stay";
    case Residency::text_encoder_leaves:
      return "the text encoder leaves after encoding";
    case Residency::one_expert:
      return "one expert at a time";
  }
  return "unknown";
}

std::vector<Residency> rungs(const ModelSource& source) {
  std::vector<Residency> all{Residency::all, Residency::text_encoder_leaves};
  if (source.has("transformer_2")) all.push_back(Residency::one_expert);
  return all;
}

}  // namespace zoetrope
