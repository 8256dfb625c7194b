// Files of configs/ that ship inside the program: recipes, prompts, toy checkpoints' configs.
#pragma once
#include <span>
#include <string_view>

namespace zoetrope {

struct Resource {
  std::string_view name;  // relative to configs/
  std::string_view bytes;
};

std::span<const Resource> resources();             // generated, see cmake/embed.cmake
std::string_view resource(std::string_view name);  // throws where it is not among them

}  // namespace zoetrope
