// A model folder in the Diffusers layout: model_index.json and one folder a component.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace zoetrope {

struct Component {
  std::string name;        // "transformer"
  std::string library;     // "diffusers"
  std::string class_name;  // "WanTransformer3DModel"
  std::filesystem::path folder;
};

struct ModelFolder {
  std::filesystem::path path;
  std::string class_name;             // "WanPipeline"
  std::vector<Component> components;  // those that the model has, by name; [null, null] is left out
  std::vector<std::string> missing;   // of those, the ones whose folder is not there
  Json settings = Json::object();     // the other keys of model_index.json, as they stand
  std::optional<double> boundary_ratio;
  bool expand_timesteps = false;

  const Component* find(std::string_view name) const;  // null: the model has none
  const Component& at(std::string_view name) const;    // Error(invalid) names the folder and the component
};

// Reads model_index.json and checks that each component's folder is there. A folder that is something else is named for
// what it is: the original Wan layout, a single file, one component, nothing. Error(unsupported): another pipeline
// class.
ModelFolder read_model_folder(const std::filesystem::path& folder);
// The same for whoever wants to know all that is wrong: folders may be missing.
ModelFolder survey_model_folder(const std::filesystem::path& folder);

}  // namespace zoetrope
