#include "io/recognise.h"

#include <algorithm>
#include <string_view>

namespace zoetrope {
namespace {

bool starts_like(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() && std::ranges::equal(text.substr(0, lower.size()), lower, [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
         });
}

}  // namespace

std::string foreign_file(std::span<const std::byte> prefix) {
  if (prefix.empty()) return "is empty; download it again";
  std::string_view text(reinterpret_cast<const char*>(prefix.data()), std::min<size_t>(prefix.size(), 256));
  if (text.starts_with("version https://git-lfs")) return "is a git-lfs pointer, run `git lfs pull`";
  if (text.starts_with("PK\x03\x04") || text.starts_with("\x80\x02\x8a\x0a"))
    return "is a PyTorch pickle (.pth, .pt, .bin), which is not read; use the safetensors files of the -Diffusers "
           "repository";
  if (text.starts_with("GGUF")) return "is a GGUF file, which is not read; use safetensors files";
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (starts_like(text, "<!doctype") || starts_like(text, "<html") || starts_like(text, "<?xml"))
    return "is a web page, not weights: the download failed; download it again";
  return {};
}

}  // namespace zoetrope
