// A fresh folder that goes away with its owner.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace zoetrope {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "zoetrope-io-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, name, ": cannot be made");
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  // Writes a file, making its folders.
  std::filesystem::path put(const std::string& name, std::string_view text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    write_file(path_ / name, text);
    return path_ / name;
  }
  size_t count() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {})); }

 private:
  std::filesystem::path path_;
};

}  // namespace zoetrope
