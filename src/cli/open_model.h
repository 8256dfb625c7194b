// What people name a model by: a folder, an owner/name in the local hub cache, or random:NAME.
#pragma once
#include <filesystem>
#include <string>

#include "io/hub.h"
#include "models/source.h"

namespace zoetrope::cli {

std::string preset_names();  // of released models: "wan2.1-t2v-1.3b, ..."
std::string model_help();    // of --model

// The folder of a model that is not random. Error says what else would do.
std::filesystem::path find_model(const std::string& what, const HubCache& hub);
// Here the name of a released model alone will do, too (random weights). `pool`, borrowed, reads or makes large
// tensors.
ModelSource open_model(const std::string& what, const HubCache& hub, Pool* pool = nullptr);
// The same; what is wrong with a folder stands in its faults.
ModelSource survey_model(const std::string& what, const HubCache& hub);

}  // namespace zoetrope::cli
