#include "io/weight_files.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "base/error.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

struct Seen {
  std::map<std::string, WeightFiles> by_variant;  // "" is plain
  std::vector<std::string> shards, pickles, partial;
};

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

// The word between `before` and `after`, both of which include their dots: "" of "model.safetensors", "fp16" of
// "model.fp16.safetensors". Nothing for a name of another form.
std::optional<std::string> variant_in(std::string_view name, std::string_view before, std::string_view after) {
  if (!name.starts_with(before)) return std::nullopt;
  name.remove_prefix(before.size());
  if (name == after) return "";
  if (!name.starts_with('.') || !name.ends_with(after)) return std::nullopt;
  const std::string_view word = name.substr(1, name.size() - after.size() - 1);
  const bool plain = std::ranges::all_of(word, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  return plain && !word.empty() ? std::optional(std::string(word)) : std::nullopt;
}

void look_at(const fs::path& file, Seen& seen) {
  const std::string name = file.filename().string();
  for (const std::string stem : {"diffusion_pytorch_model", "model"}) {
    if (const auto variant = variant_in(name, stem, ".safetensors")) seen.by_variant[*variant].single = file;
    if (const auto variant = variant_in(name, stem + ".safetensors.index", ".json"))
      seen.by_variant[*variant].index = file;
  }
  if (name.ends_with(".safetensors") && name.find("-of-") != name.npos) seen.shards.push_back(name);
  if (ends_with_any(name, {".bin", ".pth", ".pt", ".ckpt"})) seen.pickles.push_back(name);
  if (ends_with_any(name, {".incomplete", ".aria2", ".part", ".crdownload"})) seen.partial.push_back(name);
}

Seen look(const fs::path& folder) {
  Seen seen;
  for (const auto& entry : fs::directory_iterator(folder)) look_at(entry.path(), seen);
  for (auto* names : {&seen.shards, &seen.pickles, &seen.partial}) std::ranges::sort(*names);
  return seen;
}

[[noreturn]] void nothing_found(const fs::path& folder, const Seen& seen) {
  const std::string where = folder.string();
  if (!seen.partial.empty())
    fail(Code::invalid, where, ": only a partial download is here (", some_of(seen.partial), "); finish it first");
  if (!seen.shards.empty())
    fail(Code::invalid, where, ": holds shards (", some_of(seen.shards, 2), ") but not their index, ",
         "diffusion_pytorch_model.safetensors.index.json or model.safetensors.index.json; download it again");
  if (!seen.pickles.empty())
    fail(Code::invalid, where, ": holds PyTorch pickles (", some_of(seen.pickles, 2),
         "), which are not read; use a repository with safetensors files");
  fail(Code::invalid, where,
       ": no weights here; diffusion_pytorch_model.safetensors, model.safetensors or an index of ",
       "shards is expected");
}

}  // namespace

std::string some_of(const std::vector<std::string>& names, size_t at_most) {
  std::string text;
  for (size_t i = 0; i < std::min(at_most, names.size()); ++i) text += (i ? ", " : "") + names[i];
  return names.size() > at_most ? cat(text, " and ", names.size() - at_most, " more") : text;
}

fs::path partial_download(const fs::path& file) {
  for (const char* end : {".incomplete", ".aria2", ".part", ".crdownload"}) {
    fs::path beside = file;
    beside += end;
    if (fs::exists(beside)) return beside;
  }
  return {};
}

WeightFiles find_weights(const fs::path& folder, std::string_view variant) {
  require(fs::is_directory(folder), folder.string(), ": no such folder");
  Seen seen = look(folder);
  if (seen.by_variant.empty()) nothing_found(folder, seen);
  std::string wanted(variant);
  if (variant.empty() && !seen.by_variant.contains("")) {
    std::vector<std::string> variants;
    for (const auto& [name, files] : seen.by_variant) variants.push_back(name);
    require(variants.size() == 1, folder.string(), ": no plain weights, but the variants ", some_of(variants),
            "; name one of them");
    wanted = variants[0];
  }
  const auto found = seen.by_variant.find(wanted);
  require(found != seen.by_variant.end(), folder.string(), ": no weights of variant \"", wanted, "\" here");
  if (!found->second.index.empty()) found->second.single.clear();  // as diffusers: an index goes first
  return found->second;
}

}  // namespace zoetrope
