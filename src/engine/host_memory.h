// Ranks of one host, or of one GPU, share its memory: what they need together, against what it has.
#pragma once
#include <optional>

#include "comm/comm.h"
#include "engine/memory.h"

namespace zoetrope {

// What a rank finds before a job. What it holds already is there for the next job, too.
struct MemoryNow {
  int64_t free = 0;           // of its device or host
  int64_t fixed_held = 0;     // how much of what its device needs beside the regions is taken already
  int64_t limit = INT64_MAX;  // most that all ranks of a host may take together
};

// The place that has too little, and the stage that lacks most.
struct Shortage {
  Stage stage;
  int64_t need, available;
  std::map<std::string, int64_t> parts;  // of the need: weights by component, and the rest
  bool limited = false;                  // not by what is free, but by memory_config.limit_gib
};

// Every rank says what it needs, holds and finds; all get the same answer. None: it fits.
std::optional<Shortage> shortage(Ctx& c, Comm& world, const Cost& cost, const MemoryNow& now);

// "12.0 GiB (transformer 9.0 GiB, ...), 5.0 GiB are free", or "..., memory_config.limit_gib allows 5.0 GiB"
std::string words_of(const Shortage& shortage);

}  // namespace zoetrope
