#include "cli/open_model.h"

#include <algorithm>

#include "models/models.h"

namespace zoetrope::cli {
namespace {

bool is_preset(const std::string& name) {
  return std::ranges::any_of(model_presets(), [&](const ModelPreset& preset) { return name == preset.name; });
}

}  // namespace

ModelSource open_model(const std::string& what, const HubCache& hub) {
  const std::string name = what.starts_with(random_prefix) ? what.substr(std::string_view(random_prefix).size()) : what;
  if (name != what || is_preset(name)) return open_random_model(name, 0, nullptr);
  return open_model_folder(resolve_model(what, hub));
}

}  // namespace zoetrope::cli
