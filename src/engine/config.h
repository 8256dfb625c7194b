// What an engine is made of: a model, a device, types, and how its ranks are laid out.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/waits.h"
#include "core/ctx.h"
#include "pipeline/layout.h"

namespace zoetrope {

struct EngineConfig {
  std::filesystem::path model;  // folder; empty: `random_model`
  std::string model_name;       // what the user calls it, for reports and messages; empty: the folder
  std::string random_model;     // preset of random:NAME
  DeviceKind device = DeviceKind::cpu;
  DType dtype = DType::f32, vae_dtype = DType::f32;
  std::filesystem::path tuning;  // a table of `zoetrope tune`; empty: the one that ships for this GPU, if any

  int ranks = 1;                        // threads of this process; a world of processes has its own number
  std::optional<Layout> layout;         // unset: by the rule of mesh/shape.h
  std::optional<double> guidance;       // that the rule lays out for; unset: the recipe's
  std::vector<Resolution> resolutions;  // with num_frames: the shapes that Engine::warm_up makes ready
  std::vector<int> num_frames;          // read with the frames policy floor

  bool cuda_graph = true;  // segments are recorded and replayed, where the device can

  std::vector<std::string> notes;    // for the warnings of every report
  int threads = 0;                   // of all ranks of this process together; 0: as many as the machine has
  size_t max_queued = 16;            // more is refused: Error(busy)
  size_t region_limit = SIZE_MAX;    // most bytes that one memory region may take
  int64_t memory_limit = INT64_MAX;  // most that the ranks of one host, or of a GPU, may take together
  Waits waits;                       // of the ranks for each other
  Tap tap;                           // sees every named intermediate of every job, on the thread of rank 0
  std::function<void(Rank& rank, int number)> prepare;  // may change a rank of this process before it works

  int thread_count() const {
    return threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
};

}  // namespace zoetrope
