// Toy models without a folder: the configs of configs/toy, weights by the seeded rule.
#pragma once
#include <string>

#include "base/json.h"
#include "models/source.h"
#include "nn/random.h"
#include "support/source_folder.h"

namespace zoetrope {

inline std::filesystem::path toy_configs(const std::string& kind = {}) { return carried("configs/toy") / kind; }

inline ModelSource toy_source(const std::string& kind, uint64_t seed = 0) {
  const auto folder = toy_configs(kind);
  ModelSource source;
  source.name = kind;
  source.index = read_json(folder / "model_index.json");
  source.scheduler = read_json(folder / "scheduler/scheduler_config.json");
  for (const char* part : {"text_encoder", "transformer", "transformer_2", "vae"}) {
    const auto file = folder / part / "config.json";
    if (!std::filesystem::exists(file)) continue;
    const uint64_t own = part == std::string("transformer_2") ? seed + 1 : seed;
    source.parts.emplace(part, ModelPart{read_json(file), file.string(), nullptr, std::make_unique<nn::Random>(own)});
  }
  return source;
}

}  // namespace zoetrope
