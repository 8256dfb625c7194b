// The one table of models: which class name of a config.json is what, and what its checkpoint must hold.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "nn/parameters.h"

namespace zoetrope {

enum class Role { text_encoder, transformer, vae };

const char* name(Role role);

struct ModelFacts {
  std::vector<nn::Entry> used;      // what the model reads
  std::vector<nn::Entry> optional;  // what a checkpoint may hold besides; a complete one does

  int64_t parameters() const { return nn::parameter_count(used); }
};

struct ModelClass {
  const char* class_name;  // `_class_name`, or `architectures[0]`, of config.json
  Role role;
  const char* what;
  ModelFacts (*facts)(const Json& config);  // built in a dry context; throws what the constructor would
};

std::span<const ModelClass> model_classes();
std::string class_name_of(const Json& config);                 // Error(invalid) where a config names no class
const ModelClass& model_class(const std::string& class_name);  // Error(unsupported) lists those that are built

// A released model's configs, for `random:NAME`: files as in its diffusers folder, relative names.
struct ModelPreset {
  const char* name;  // "wan2.2-t2v-a14b"
  const char* what;
  struct File {
    const char *path, *json;
  };
  std::span<const File> files;

  Json config(const std::string& path) const;  // Error(invalid) where there is none
};

std::span<const ModelPreset> model_presets();
const ModelPreset& model_preset(const std::string& name);  // Error(invalid) lists the names

}  // namespace zoetrope
