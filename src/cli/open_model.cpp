#include "cli/open_model.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "models/models.h"

namespace zoetrope::cli {
namespace {

constexpr const char* not_built[] = {"cosmos3-nano", "cosmos3-super"};  // released models that have a name already

std::optional<ModelSource> open_random(const std::string& what, Pool* pool = nullptr) {
  const bool preset = std::ranges::any_of(model_presets(), [&](const ModelPreset& one) { return what == one.name; });
  if (preset) return open_random_model(what, 0, pool);
  for (const std::string_view name : not_built)
    if (what == name || what == cat(random_prefix, name))
      fail(Code::unsupported, what, ": Cosmos3 is not built in this version; built are ", preset_names());
  if (!what.starts_with(random_prefix)) return std::nullopt;
  return open_random_model(what.substr(std::string_view(random_prefix).size()), 0, pool);
}

}  // namespace

std::string preset_names() {
  std::string names;
  for (const ModelPreset& preset : model_presets()) names += cat(names.empty() ? "" : ", ", preset.name);
  return names;
}

std::string model_help() {
  return cat("folder, owner/name in the local hub cache, or random:NAME, random weights in the shapes of ",
             preset_names());
}

std::filesystem::path find_model(const std::string& what, const HubCache& hub) {
  const bool nothing = what.find('/') == std::string::npos && !std::filesystem::exists(what);
  require(!nothing || what.empty(), what, ": no such folder; give a folder in the Diffusers layout, a Hugging Face ",
          "name like owner/name, or ", random_prefix, "NAME with one of ", preset_names());
  return resolve_model(what, hub);
}

ModelSource open_model(const std::string& what, const HubCache& hub, Pool* pool) {
  if (auto random = open_random(what, pool)) return std::move(*random);
  return open_model_folder(find_model(what, hub), what, pool);
}

ModelSource survey_model(const std::string& what, const HubCache& hub) {
  if (auto random = open_random(what)) return std::move(*random);
  return zoetrope::survey_model(find_model(what, hub), what);
}

}  // namespace zoetrope::cli
