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

ModelSource begin(const ModelFolder& layout, const std::string& name) {
  ModelSource source;
  source.name = name.empty() ? layout.path.string() : name;
  source.folder = layout.path;
  source.index = read_json(layout.path / "model_index.json");
  return source;
}

// The config first: it stays where the weights cannot be opened.
void open_part(ModelSource& source, const char* part, Pool* pool) {
  const auto folder = source.folder / part, file = folder / "config.json";
  ModelPart& what =
      source.parts.emplace(part, ModelPart{read_json(file), file.string(), nullptr, nullptr}).first->second;
  what.checkpoint = std::make_unique<Checkpoint>(folder);
  what.weights = std::make_unique<nn::Stored>(*what.checkpoint, pool);
}

}  // namespace

const ModelPart& ModelSource::at(const std::string& part) const {
  const auto found = parts.find(part);
  require(found != parts.end(), name, ": has no ", part);
  return found->second;
}

ModelSource open_model_folder(const std::filesystem::path& folder, const std::string& name, Pool* pool) {
  const ModelFolder layout = read_model_folder(folder);
  ModelSource source = begin(layout, name);
  source.scheduler = read_json(folder / scheduler_file);
  for (const char* part : weighted_parts)
    if (layout.find(part)) open_part(source, part, pool);
  return source;
}

ModelSource survey_model(const std::filesystem::path& folder, const std::string& name) {
  const ModelFolder layout = survey_model_folder(folder);
  ModelSource source = begin(layout, name);
  const auto attempt = [&](const std::string& component, auto body) {
    if (!layout.find(component) || source.faults.contains(component)) return;
    try {
      body();
    } catch (const Error& error) {
      source.faults[component] = error.what();
    }
  };
  for (const std::string& missing : layout.missing)
    source.faults[missing] = cat((folder / missing).string(), ": is not there; finish the download");
  attempt("scheduler", [&] { source.scheduler = read_json(folder / scheduler_file); });
  for (const char* part : weighted_parts) attempt(part, [&] { open_part(source, part, nullptr); });
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
