#include "repo/tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace fs = std::filesystem;

namespace zoetrope::repo {
namespace {

void add(const fs::path& root, const fs::path& path, std::vector<File>& files) {
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (text.find('\0') != std::string::npos) return;
  files.push_back({fs::relative(path, root).generic_string(), std::move(text)});
}

}  // namespace

std::vector<File> read_tree(const std::string& root, const std::vector<std::string>& folders) {
  std::vector<File> files;
  for (const std::string& folder : folders) {
    const fs::path at = fs::path(root) / folder;
    if (fs::is_regular_file(at)) add(root, at, files);
    if (!fs::is_directory(at)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(at))
      if (entry.is_regular_file()) add(root, entry.path(), files);
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

std::string code_only(std::string_view text) {
  enum { code, line_comment, block_comment, text_literal, char_literal } state = code;
  std::string out(text);
  for (size_t i = 0; i < out.size(); ++i) {
    const char here = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    const char before = i > 0 ? text[i - 1] : '\0';
    if (state == code) {
      if (here == '/' && next == '/') state = line_comment;
      if (here == '/' && next == '*') state = block_comment;
      if (here == '"') state = text_literal;
      // 1'000: a quote between digits separates them.
      if (here == '\'' && !std::isalnum(static_cast<unsigned char>(before))) state = char_literal;
      if (state == line_comment || state == block_comment) out[i] = out[i + 1] = ' ', ++i;
      continue;
    }
    if (state == block_comment && here == '*' && next == '/') {
      out[i] = out[i + 1] = ' ';
      ++i, state = code;
      continue;
    }
    if (here == '\n') {
      if (state != block_comment) state = code;
      continue;
    }
    if ((state == text_literal && here == '"') || (state == char_literal && here == '\'')) {
      state = code;
      continue;
    }
    out[i] = ' ';
    if (here == '\\' && (state == text_literal || state == char_literal) && next != '\n' && i + 1 < out.size())
      out[++i] = ' ';
  }
  return out;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

bool is_code(std::string_view path) {
  const std::string_view end = path.substr(path.rfind('.') == std::string_view::npos ? path.size() : path.rfind('.'));
  return end == ".h" || end == ".cpp" || end == ".cu" || end == ".cuh";
}

}  // namespace zoetrope::repo
