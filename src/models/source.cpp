#include "models/source.h"

#include "base/error.h"
#include "io/folder.h"
#include "models/models.h"
#include "nn/random.h"
#include "nn/stored.h"

namespace zoetrope {
namespace {

constexpr const char* weighted_parts[] = {"text_encoder", "transformer", "transformer_2", "vae"};
constexpr const char* scheduler_file = "scheduler/scheduler_config.json";

}  // namespace

const ModelPart& ModelSource::at(const std::string& part) const {
  const auto found = parts.find(part);
  require(found != parts.end(), name, ": has no ", part);
  return found->second;
}

ModelSource open_model_folder(const std::filesystem::path& folder) {
  const ModelFolder layout = read_model_folder(folder);
  ModelSource source;
  source.name = folder.string();
  source.folder = folder;
  source.index = read_json(folder / "model_index.json");
  source.scheduler = read_json(folder / scheduler_file);
  for (const char* part : weighted_parts) {
    const auto* component = layout.find(part);
    if (!component) continue;
    const auto file = component->folder / "config.json";
    auto checkpoint = std::make_unique<Checkpoint>(component->folder);
    auto weights = std::make_unique<nn::Stored>(*checkpoint);
    source.parts.emplace(part, ModelPart{read_json(file), file.string(), std::move(checkpoint), std::move(weights)});
  }
  return source;
}

ModelSource open_random_model(const std::string& name, uint64_t seed, Pool* pool) {
  const ModelPreset& preset = model_preset(name);
  ModelSource source;
  source.name = random_prefix + name;
  source.index = preset.config("model_index.json");
  source.scheduler = preset.config(scheduler_file);
  for (const auto& file : preset.files) {
    const std::string path = file.path;
    for (const char* part : weighted_parts)
      if (path == cat(part, "/config.json")) {
        const uint64_t part_seed = part == std::string_view("transformer_2") ? seed + 1 : seed;
        source.parts.emplace(part, ModelPart{preset.config(path), cat(source.name, '/', path), nullptr,
                                             std::make_unique<nn::Random>(part_seed, pool)});
      }
  }
  return source;
}

}  // namespace zoetrope
