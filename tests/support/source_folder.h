// The repository: where this program was built or, on another machine, the folder above the program that holds models.
// What tests/cuda/pack.sh carries there lies beside the program.
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

// "configs/toy" of the repository.
inline std::filesystem::path carried(const std::filesystem::path& what) {
  const std::filesystem::path here = std::filesystem::path(ZOETROPE_SOURCE_DIR) / what;
  return std::filesystem::exists(here) ? here : std::filesystem::canonical("/proc/self/exe").parent_path() / what;
}

}  // namespace zoetrope
