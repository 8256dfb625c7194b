#include "config/request.h"

#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "config/fields.h"
#include "config/recipes.h"

namespace zoetrope {
namespace {

constexpr int rope_positions = 1024;  // longest axis of the token grid that the models' rotary tables know

// The multiples of `step` around `value`, for messages.
std::string around(int value, int step) {
  const int below = value / step * step;
  return below > 0 ? cat(below, " or ", below + step) : cat(step);
}

void check_size(const char* what, int pixels, int scale) {
  const int step = 2 * scale;  // latent rows come in patches of two
  require(pixels % step == 0, "size: ", what, ' ', pixels, " is not a multiple of ", step, "; use ",
          around(pixels, step));
  require(pixels / step <= rope_positions, "size: ", what, ' ', pixels, " is more than the ", rope_positions * step,
          " the model has positions for");
}

void add_warnings(Request& r, const Ask& ask, const Recipe& recipe) {
  if (!recipe.note.empty()) r.warnings.push_back(recipe.note);
  if (!r.guided() && !ask.negative_prompt.value_or("").empty())
    r.warnings.push_back(cat("negative prompt: not used, guidance_scale ", r.guidance_scale, " is 1 or less"));
  if (recipe.trained.is_null()) return;
  const int width = recipe.trained.at("width"), height = recipe.trained.at("height");
  const auto [least, most] = recipe.trained.at("num_frames").get<std::pair<int, int>>();
  if (r.width == width && r.height == height && r.num_frames >= least && r.num_frames <= most) return;
  r.warnings.push_back(cat(r.width, 'x', r.height, " and ", plural(r.num_frames, "frame"),
                           ": this model was trained on ", width, 'x', height, " and ", least, " to ", most,
                           " frames, the result may not obey the prompt"));
}

}  // namespace

FrameCount count_frames(int asked, const std::string& policy) {
  const int below = (asked - 1) / 4 * 4 + 1, over = (asked - 1) % 4;
  if (over == 0) return {asked, 0};
  if (policy == "floor") {
    // The published reading: asked / 4 latent frames, so 80 is 20 latent frames and 77 frames.
    return {below, 0};
  }
  if (policy == "ceil") return {below + 4, 4 - over};
  fail(Code::invalid, "num_frames: ", asked, " is not 4k + 1; use ", below, " or ", below + 4,
       ", or a frames policy (floor, ceil)");
}

Request resolve(const Ask& ask, const ModelInfo& model, uint64_t fresh_seed) {
  const auto recipes = read_recipes();
  const Recipe& recipe = find_recipe(recipes, model);
  const std::string kind = ask.recipe.value_or(recipe.usual()), preset = ask.preset.value_or("standard");
  const Ask base = defaults(recipe, model, kind, preset);
  const auto pick = [](const auto& asked, const auto& fallback) { return asked ? *asked : fallback.value(); };

  Request r;
  r.recipe = cat(recipe.name, '/', kind, preset == "standard" ? "" : cat('/', preset));
  r.prompt = ask.prompt;
  r.negative_prompt = pick(ask.negative_prompt, base.negative_prompt);
  r.width = pick(ask.width, base.width), r.height = pick(ask.height, base.height);
  check_size("width", r.width, model.spatial_scale);
  check_size("height", r.height, model.spatial_scale);
  const auto [compute, drop] = count_frames(pick(ask.num_frames, base.num_frames), ask.frames_policy.value_or("exact"));
  r.num_frames = compute, r.drop_frames = drop;
  require(r.latent_frames() <= rope_positions, "num_frames: ", r.num_frames, " is more than the ",
          4 * rope_positions - 3, " the model has positions for");
  r.fps = pick(ask.fps, base.fps), r.steps = pick(ask.steps, base.steps);
  r.guidance_scale = pick(ask.guidance_scale, base.guidance_scale);
  // As in diffusers, the second scale follows the first where the caller gave only that one.
  r.guidance_scale_2 = ask.guidance_scale_2 ? *ask.guidance_scale_2
                       : ask.guidance_scale ? *ask.guidance_scale
                                            : base.guidance_scale_2.value_or(r.guidance_scale);
  r.flow_shift = pick(ask.flow_shift, base.flow_shift);
  r.schedule = pick(ask.schedule, base.schedule);
  r.experts = model.experts;
  if (model.experts == 2) {
    require(ask.boundary_ratio || base.boundary_ratio, model.source,
            ": has two experts but no boundary_ratio; give --boundary-ratio");
    r.boundary_ratio = pick(ask.boundary_ratio, base.boundary_ratio);
  } else {
    require(!ask.boundary_ratio && !ask.guidance_scale_2, ask.boundary_ratio ? "boundary_ratio" : "guidance_scale_2",
            ": the model has one expert; this belongs to models with two");
  }
  r.noise = ask.noise.value_or("torch-cpu");
  r.seed = ask.seed.value_or(fresh_seed);
  r.latents = ask.latents.value_or("");
  add_warnings(r, ask, recipe);
  return r;
}

Json to_json(const Request& r) {
  Json json = {{"recipe", r.recipe},
               {"prompt", r.prompt},
               {"negative_prompt", r.negative_prompt},
               {"width", r.width},
               {"height", r.height},
               {"num_frames", r.num_frames - r.drop_frames},
               {"fps", r.fps},
               {"steps", r.steps},
               {"guidance_scale", r.guidance_scale},
               {"flow_shift", r.flow_shift},
               {"schedule", r.schedule},
               {"seed", r.seed},
               {"noise", r.latents.empty() ? r.noise : "latents from a file"}};
  if (r.experts == 2) json["guidance_scale_2"] = r.guidance_scale_2, json["boundary_ratio"] = r.boundary_ratio;
  return json;
}

}  // namespace zoetrope
