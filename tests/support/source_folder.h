// The repository: where this program was built or, on another machine, the folder above the program that holds models.
#pragma once
#include <filesystem>

namespace zoetrope {

inline std::filesystem::path source_folder() {
  std::filesystem::path folder = ZOETROPE_SOURCE_DIR;
  if (std::filesystem::exists(folder)) return folder;
  folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  while (!std::filesystem::exists(folder / "models/shapes") && folder.has_relative_path())
    folder = folder.parent_path();
  return folder;
}

}  // namespace zoetrope
