// The shapes that a configuration declares (compilation_config), run once before the first request.
#pragma once
#include "engine/model.h"

namespace zoetrope {

// One request a shape, sizes by lengths, the largest first: it needs the most memory. What only one of both lists names
// has the recipe's of the other. Error(invalid) names the shape that the model does not take.
std::vector<Ask> declared_shapes(const EngineConfig& config, const Model& model);

std::string shape_text(const Request& request);  // "1280x720, 81 frames"

// The least that runs all which a request of this shape runs: two steps, or so many of each expert where there are two.
// A device that records segments does so in the second run of each.
Request shortest(const Task& task, int steps_of_each = 1);

}  // namespace zoetrope
