// What people name a model by.
#pragma once
#include <string>

#include "io/hub.h"
#include "models/source.h"

namespace zoetrope::cli {

// A folder, an owner/name in the local hub cache, random:NAME, or the name of a released model (random weights, too).
ModelSource open_model(const std::string& what, const HubCache& hub);

}  // namespace zoetrope::cli
