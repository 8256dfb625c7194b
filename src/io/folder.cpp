#include "io/folder.h"

#include <algorithm>

#include "base/error.h"
#include "io/weight_files.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view known_classes[] = {"WanPipeline", "WanImageToVideoPipeline", "Cosmos3OmniDiffusersPipeline"};

constexpr const char* wanted = "a folder in the Diffusers layout (it holds model_index.json)";

// The names that give away a checkpoint in the layout of the Wan authors' own code.
std::vector<std::string> original_layout(const fs::path& folder) {
  std::vector<std::string> names;
  for (const char* part : {"high_noise_model", "low_noise_model"})
    if (fs::is_directory(folder / part)) names.push_back(cat(part, "/"));
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".pth") names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string class_of_component(const fs::path& folder) {
  if (!fs::exists(folder / "config.json")) return {};
  const Json config = read_json(folder / "config.json", 1u << 20);
  if (!config.is_object()) return {};
  if (config.contains("_class_name")) return value_or(config, "_class_name", std::string());
  const auto classes = config.find("architectures");
  const bool named = classes != config.end() && classes->is_array() && !classes->empty() && (*classes)[0].is_string();
  return named ? (*classes)[0].get<std::string>() : std::string();
}

void check_is_model_folder(const fs::path& folder) {
  const std::string where = folder.string();
  require(fs::exists(folder), where, ": no such folder; give ", wanted, " or a Hugging Face name like owner/name");
  require(fs::is_directory(folder), where, ": is a single file; give ", wanted);
  if (fs::exists(fs::symlink_status(folder / "model_index.json"))) return;
  const auto original = original_layout(folder);
  require(original.empty(), where, ": holds the original Wan layout (", some_of(original, 4),
          "); use the -Diffusers repository of the same name, for example `hf download ",
          "Wan-AI/Wan2.2-T2V-A14B-Diffusers`");
  const std::string part = class_of_component(folder);
  require(part.empty(), where, ": is one component (", part,
          "); give the folder above it, which holds model_index.json");
  fail(Code::invalid, where, ": no model_index.json here; give ", wanted);
}

std::optional<Component> component_of(const std::string& name, const Json& value, const fs::path& folder,
                                      const std::string& where) {
  if (value[0].is_null() || value[1].is_null()) return std::nullopt;
  require(name.find('/') == std::string::npos && name.find('\0') == std::string::npos && !name.starts_with('.'), where,
          ": \"", name, "\" is not the name of a component");
  return Component{name, value[0].get<std::string>(), value[1].get<std::string>(), folder / name};
}

bool names_a_component(const std::string& key, const Json& value) {
  const auto text_or_null = [](const Json& item) { return item.is_string() || item.is_null(); };
  return !key.starts_with('_') && value.is_array() && value.size() == 2 && text_or_null(value[0]) &&
         text_or_null(value[1]);
}

std::string join(std::span<const std::string_view> names) {
  std::string text;
  for (const auto& name : names) text += cat(text.empty() ? "" : ", ", name);
  return text;
}

void read_settings(ModelFolder& model) {
  model.expand_timesteps = value_or(model.settings, "expand_timesteps", false);
  const double absent = -1e9, ratio = value_or(model.settings, "boundary_ratio", absent);
  if (ratio == absent) return;
  require(ratio >= 0 && ratio <= 1, "boundary_ratio is ", ratio, ", 0 to 1 makes sense");
  model.boundary_ratio = ratio;
}

}  // namespace

const Component* ModelFolder::find(std::string_view name) const {
  const auto found = std::ranges::find(components, name, &Component::name);
  return found == components.end() ? nullptr : &*found;
}

const Component& ModelFolder::at(std::string_view name) const {
  const Component* found = find(name);
  require(found, path.string(), ": model_index.json names no ", name);
  return *found;
}

ModelFolder survey_model_folder(const fs::path& folder) {
  check_is_model_folder(folder);
  const fs::path index = folder / "model_index.json";
  const std::string where = index.string();
  const Json json = read_json(index, 1u << 20);
  require(json.is_object(), where, ": not a JSON object");
  ModelFolder model;
  model.path = folder;
  model.class_name = value_or(json, "_class_name", std::string());
  if (std::ranges::find(known_classes, model.class_name) == std::end(known_classes))
    fail(Code::unsupported, where, ": pipeline class \"", model.class_name, "\" is not known; known are ",
         join(known_classes));
  for (const auto& [key, value] : json.items()) {
    if (!names_a_component(key, value)) {
      if (!key.starts_with('_')) model.settings[key] = value;
      continue;
    }
    const auto component = component_of(key, value, folder, where);
    if (component && !fs::is_directory(component->folder)) model.missing.push_back(key);
    if (component) model.components.push_back(*component);
  }
  about(where, [&] { read_settings(model); });
  return model;
}

ModelFolder read_model_folder(const fs::path& folder) {
  ModelFolder model = survey_model_folder(folder);
  std::vector<std::string> missing;
  for (const std::string& name : model.missing) missing.push_back(name + "/");
  require(missing.empty(), (folder / "model_index.json").string(),
          ": names components that are not there: ", some_of(missing), "; finish the download");
  return model;
}

}  // namespace zoetrope
