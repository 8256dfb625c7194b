#include "engine/warm_up.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace zoetrope {
namespace {

Ask ask_for(const EngineConfig& config, std::optional<Resolution> size, std::optional<int> frames) {
  Ask ask;
  ask.prompt = "a";
  ask.seed = 0;
  if (size) ask.width = size->width, ask.height = size->height;
  ask.num_frames = frames;
  ask.frames_policy = "floor";
  ask.guidance_scale = config.guidance;
  return ask;
}

template <class T>
std::vector<std::optional<T>> or_the_recipes(const std::vector<T>& declared) {
  if (declared.empty()) return {std::nullopt};
  return {declared.begin(), declared.end()};
}

// "1280x720, 81 frames", as it was declared.
std::string declared_text(const Ask& ask) {
  return cat(ask.width ? cat(*ask.width, 'x', *ask.height) : "the recipe's size", ", ",
             ask.num_frames ? plural(*ask.num_frames, "frame") : "the recipe's frames");
}

Request resolved(const Ask& ask, const Model& model) {
  try {
    return model.resolve(ask);
  } catch (const Error& error) {
    fail(error.code(), "compilation_config: ", declared_text(ask), ": ", error.what());
  }
}

int64_t pixels(const Request& r) { return int64_t{r.width} * r.height * r.num_frames; }

}  // namespace

std::vector<Ask> declared_shapes(const EngineConfig& config, const Model& model) {
  if (config.resolutions.empty() && config.num_frames.empty()) return {};
  std::vector<std::pair<Ask, Request>> shapes;
  for (const auto& size : or_the_recipes(config.resolutions))
    for (const auto& frames : or_the_recipes(config.num_frames)) {
      const Ask ask = ask_for(config, size, frames);
      const Request request = resolved(ask, model);
      const auto same = [&](const auto& other) { return shape_text(other.second) == shape_text(request); };
      if (std::ranges::none_of(shapes, same)) shapes.emplace_back(ask, request);
    }
  std::ranges::stable_sort(shapes, std::ranges::greater(), [](const auto& one) { return pixels(one.second); });
  std::vector<Ask> asks;
  for (auto& [ask, request] : shapes) asks.push_back(std::move(ask));
  return asks;
}

std::string shape_text(const Request& r) { return cat(r.width, 'x', r.height, ", ", plural(r.num_frames, "frame")); }

Request shortest(const Task& task, int steps_of_each) {
  Request request = task.request;
  const auto first = static_cast<size_t>(steps_of_each);
  request.steps = request.experts == 2 ? 2 * steps_of_each : 2;
  const auto at = make_schedule(task.scheduler, request.steps, parse_grid(request.schedule)).timesteps;
  if (request.experts == 2)  // between the last step of the one and the first of the other
    request.boundary_ratio = static_cast<double>(at[first - 1] + at[first]) / 2 / task.scheduler.train_timesteps;
  return request;
}

}  // namespace zoetrope
