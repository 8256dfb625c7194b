#include "config/recipes.h"

#include <array>

#include "base/error.h"
#include "base/units.h"
#include "config/fields.h"
#include "config/resources.h"

namespace zoetrope {
namespace {

bool matches(const Recipe& recipe, const ModelInfo& model) {
  const Json facts = {{"class", model.pipeline_class},
                      {"experts", model.experts},
                      {"dim", model.dim},
                      {"layers", model.layers},
                      {"in_channels", model.in_channels}};
  for (const auto& [key, wanted] : recipe.match.items())
    if (facts.at(key) != wanted) return false;
  return true;
}

std::string facts_of(const ModelInfo& model) {
  return cat(model.pipeline_class, " with ", plural(model.experts, "expert"), ", width ", model.dim, ", ",
             plural(model.layers, "layer"), ", ", model.in_channels, " latent channels");
}

void apply(Ask& ask, const Json& fields) {
  for (const auto& [key, value] : fields.items()) {
    if (key == "negative_prompt")
      ask.negative_prompt = resource(cat("prompts/", value.get<std::string>(), ".txt"));
    else
      set(ask, request_field(key), value);
  }
}

// What diffusers' WanPipeline does when its caller says nothing but the prompt. Shift and boundary are all that the
// files of a checkpoint say.
Ask folder_defaults(const ModelInfo& model) {
  Ask ask;
  ask.negative_prompt = "";
  ask.width = 832, ask.height = 480, ask.num_frames = 81, ask.fps = 16, ask.steps = 50;
  ask.guidance_scale = 5.0, ask.guidance_scale_2 = 5.0;
  ask.flow_shift = model.folder_flow_shift;
  ask.boundary_ratio = model.boundary_ratio;
  ask.schedule = "diffusers";
  return ask;
}

}  // namespace

std::vector<Recipe> read_recipes() {
  std::vector<Recipe> recipes;
  for (const Json& row : parse_yaml(resource("recipes.yml"), "recipes.yml"))
    recipes.push_back({row.at("name"), row.at("title"), row.value("note", ""), row.value("trained", Json()),
                       row.at("match"), row.value("original", Json()), row.value("draft", Json())});
  return recipes;
}

const Recipe& find_recipe(const std::vector<Recipe>& recipes, const ModelInfo& model) {
  for (const Recipe& recipe : recipes)
    if (matches(recipe, model)) return recipe;
  fail(Code::unsupported, model.source, ": no recipe for a ", facts_of(model));
}

Ask defaults(const Recipe& recipe, const ModelInfo& model, const std::string& kind, const std::string& preset) {
  Ask ask = folder_defaults(model);
  const auto add = [&](const char* field, const char* value, const Json& fields, const char* instead) {
    require(!fields.is_null(), field, ": ", model.source, " has no ", value, " settings here (", facts_of(model),
            "); leave --", field, " out", instead);
    apply(ask, fields);
  };
  if (kind == "original") add("recipe", "original", recipe.original, " to take those of its folder");
  if (preset == "draft") add("preset", "draft", recipe.draft, " and give --size, --num-frames and --steps");
  return ask;
}

}  // namespace zoetrope
