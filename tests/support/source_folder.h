// The repository: where this program was built or, where it was carried to another machine, the folder it runs in.
#pragma once
#include <filesystem>

namespace zoetrope {

inline std::filesystem::path source_folder() {
  const std::filesystem::path built = ZOETROPE_SOURCE_DIR;
  return std::filesystem::exists(built) ? built : std::filesystem::current_path();
}

}  // namespace zoetrope
