// The source tree as text: what the repository tests look at.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace zoetrope::repo {

struct File {
  std::string path;  // from the root, with '/'
  std::string text;
};

// Text files under `folders` (or single files) of the root, by path. Missing folders are skipped, binary files too.
std::vector<File> read_tree(const std::string& root, const std::vector<std::string>& folders);

// The same text with comments and the contents of string literals blanked out; lines stay where they are.
std::string code_only(std::string_view text);

std::vector<std::string_view> lines_of(std::string_view text);
bool is_code(std::string_view path);  // .h .cpp .cu .cuh

}  // namespace zoetrope::repo
