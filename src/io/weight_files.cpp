#include "io/weight_files.h"

#include <algorithm>
#include <map>
#include <regex>

#include "base/error.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

struct Seen {
  std::map<std::string, WeightFiles> by_variant;  // "" is plain
  std::vector<std::string> shards, pickles, partial;
};

// diffusion_pytorch_model.fp16.safetensors, model.safetensors.index.fp16.json, model-00001-of-00003.safetensors
const char* const single_form = R"((diffusion_pytorch_model|model)(?:\.([A-Za-z0-9_]+))?\.safetensors)";
const char* const index_form = R"((diffusion_pytorch_model|model)\.safetensors\.index(?:\.([A-Za-z0-9_]+))?\.json)";
const char* const shard_form = R"(.*-\d{5}-of-\d{5}.*\.safetensors)";
const char* const pickle_form = R"(.*\.(bin|pth|pt|ckpt))";
const char* const partial_form = R"(.*\.(incomplete|aria2|part|crdownload))";

Seen look(const fs::path& folder) {
  const std::regex single(single_form), index(index_form), shard(shard_form), pickle(pickle_form),
      partial(partial_form);
  Seen seen;
  std::smatch match;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (std::regex_match(name, match, index))
      seen.by_variant[match[2]].index = entry.path();
    else if (std::regex_match(name, shard))
      seen.shards.push_back(name);
    else if (std::regex_match(name, match, single))
      seen.by_variant[match[2]].single = entry.path();
    else if (std::regex_match(name, pickle))
      seen.pickles.push_back(name);
    else if (std::regex_match(name, partial))
      seen.partial.push_back(name);
  }
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
