// Which files of a component folder hold its weights, by the naming habits of diffusers and transformers.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace zoetrope {

struct WeightFiles {
  std::filesystem::path index;   // empty: one file
  std::filesystem::path single;  // empty: an index
};

// Error(invalid) says what the folder holds instead: nothing, pickles, shards without their index, partial downloads,
// several variants to choose from.
WeightFiles find_weights(const std::filesystem::path& folder, std::string_view variant);

// The partial download that stands beside `file` or in its stead ("x.aria2", "x.incomplete", ...); empty if none.
std::filesystem::path partial_download(const std::filesystem::path& file);

// "a, b, c and 7 more".
std::string some_of(const std::vector<std::string>& names, size_t at_most = 8);

}  // namespace zoetrope
