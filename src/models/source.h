// A model to run: the configs of its parts and where their weights come from. Either a folder in the diffusers layout,
// or `random:NAME`, a released model's shapes with seeded random weights.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/json.h"
#include "core/pool.h"
#include "io/checkpoint.h"
#include "nn/parameters.h"

namespace zoetrope {

struct ModelPart {
  Json config;
  std::string where;                       // file, for messages
  std::unique_ptr<Checkpoint> checkpoint;  // null for random weights
  std::unique_ptr<nn::Parameters> weights;
};

struct ModelSource {
  std::string name;                        // as asked for
  std::filesystem::path folder;            // empty for random weights
  Json index, scheduler;                   // model_index.json, scheduler_config.json
  std::map<std::string, ModelPart> parts;  // text_encoder, transformer, transformer_2, vae

  // Of a survey only: component -> why it cannot be used. One whose config could be read stands among `parts`, too,
  // without weights.
  std::map<std::string, std::string> faults;

  bool random() const { return folder.empty(); }
  bool has(const std::string& part) const { return parts.contains(part); }
  const ModelPart& at(const std::string& part) const;
};

// `name` is what the user calls it; empty: the folder. `pool`, borrowed, reads large tensors.
ModelSource open_model_folder(const std::filesystem::path& folder, const std::string& name = {}, Pool* pool = nullptr);
// As much of it as can be opened, with the faults of the rest. Error only where the folder is no model at all.
ModelSource survey_model(const std::filesystem::path& folder, const std::string& name = {});
ModelSource open_random_model(const std::string& preset, uint64_t seed, Pool* pool);

inline constexpr const char* random_prefix = "random:";

}  // namespace zoetrope
