// Recipes: the defaults a model is run with, one row a model in configs/recipes.yml.
#pragma once
#include <string>
#include <vector>

#include "config/request.h"

namespace zoetrope {

struct Recipe {
  std::string name;      // of the row
  std::string title;     // for people
  std::string note;      // a warning that every job of this model carries, or empty
  Json trained;          // null, or what a small model has seen: width, height, num_frames [least, most]
  Json match;            // facts that must hold: class, experts, dim, layers, in_channels
  Json original, draft;  // field -> value; negative_prompt names a file of configs/prompts; null: there is none

  // What a request takes that names no recipe: the authors' where we know them, else the folder's.
  const char* usual() const { return original.is_null() ? "folder" : "original"; }
};

std::vector<Recipe> read_recipes();
const Recipe& find_recipe(const std::vector<Recipe>& recipes, const ModelInfo& model);

// The fields of a recipe as an Ask: kind is "original" or "folder", preset "standard" or "draft". Error(invalid) where
// the row has no such settings.
Ask defaults(const Recipe& recipe, const ModelInfo& model, const std::string& kind, const std::string& preset);

}  // namespace zoetrope
