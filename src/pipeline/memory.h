// What the memory regions of a rank hold, and how much of a model stays in them: the rungs of the memory ladder.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ctx.h"
#include "models/source.h"
#include "pipeline/hooks.h"

namespace zoetrope {

struct MemoryNeed {
  std::map<std::string, int64_t> weights;          // bytes by component
  int64_t request = 0, scratch = 0, exchange = 0;  // bytes

  int64_t total() const;
  friend bool operator==(const MemoryNeed&, const MemoryNeed&) = default;
};

// A rank at the end of a stage, when it holds most.
struct StageMemory {
  Stage stage = Stage::load;
  MemoryNeed peaks;                       // the most that each region held so far, to the byte
  std::map<std::string, int64_t> slices;  // pages of weights, "component/slice": what ranks of one process share
  int64_t pages = 0;                      // of the other regions: bytes as the device sees them
  int64_t device = 0;                     // in use on a device with memory of its own, by whomever; else 0

  int64_t total() const;  // pages of this rank, all together
};

// Gives back the pages of request and scratch above what `keep` has of them; recordings that work in these go, too.
void trim(Rank& rank, const MemoryNeed& keep = {});

StageMemory memory_at(const Rank& rank, Stage stage);
int64_t most_at_once(const std::vector<StageMemory>& stages);  // pages
MemoryNeed peaks_of(const std::vector<StageMemory>& stages);   // of each region by itself, not all at one time

// What stays in memory, from the fastest way of working to the one that needs least. The bits are the same.
enum class Residency : uint8_t {
  all,
  text_encoder_leaves,  // read for a prompt that is not known yet, and given back before the first step
  one_expert,           // besides, of two experts only the one that works; before them only the text encoder
};
const char* name(Residency residency);
const char* words_of(Residency residency);
std::vector<Residency> rungs(const ModelSource& source);  // those that differ for this model, in order

}  // namespace zoetrope
