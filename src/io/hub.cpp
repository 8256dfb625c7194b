#include "io/hub.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "io/folder.h"
#include "io/weight_files.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

// Whole repositories in GB (10^9 bytes), from the sizes of their parts.
constexpr std::pair<std::string_view, int> sizes[] = {{"Wan-AI/Wan2.2-T2V-A14B-Diffusers", 126},
                                                      {"Wan-AI/Wan2.2-I2V-A14B-Diffusers", 126},
                                                      {"Wan-AI/Wan2.2-TI2V-5B-Diffusers", 34},
                                                      {"Wan-AI/Wan2.1-T2V-1.3B-Diffusers", 29}};

std::string download_command(std::string_view name) {
  for (const auto& [known, size] : sizes)
    if (known == name) return cat("`hf download ", name, "` (about ", size, " GB)");
  return cat("`hf download ", name, "`");
}

// owner/name of letters, digits, dots, dashes and underscores.
bool looks_like_hub_name(std::string_view model) {
  const size_t slash = model.find('/');
  if (slash == model.npos) return false;
  const auto good = [](std::string_view part) {
    return !part.empty() && std::isalnum(static_cast<unsigned char>(part[0])) && part.find("..") == part.npos &&
           std::ranges::all_of(part,
                               [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '-' || c == '_'; });
  };
  return good(model.substr(0, slash)) && good(model.substr(slash + 1));
}

bool plain_name(const std::string& text) {
  return !text.empty() && text.find('/') == std::string::npos && !text.starts_with('.');
}

// snapshots/<hash> that refs/main names, or the only one there is; empty if there is none.
fs::path snapshot_of(const fs::path& repository) {
  const fs::path main = repository / "refs" / "main", all = repository / "snapshots";
  if (fs::exists(main)) {
    std::string hash = read_file(main, 4096);
    hash.erase(hash.find_last_not_of(" \r\n") + 1);
    require(plain_name(hash), main.string(), ": does not name a snapshot");
    if (fs::is_directory(all / hash)) return all / hash;
  }
  if (!fs::is_directory(all)) return {};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(all))
    if (entry.is_directory()) found.push_back(entry.path());
  return found.size() == 1 ? found[0] : fs::path();
}

// Shards that an index in this folder names and that are not there, and links to nowhere.
std::set<std::string> missing_in(const fs::path& folder) {
  std::set<std::string> missing;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_symlink() && !fs::exists(entry.path())) missing.insert(name);
    if (!name.ends_with(".safetensors.index.json") || !fs::exists(entry.path())) continue;
    const Json index = read_json(entry.path());
    if (!index.is_object() || !index.contains("weight_map")) continue;
    for (const auto& [tensor, file] : index["weight_map"].items())
      if (file.is_string() && plain_name(file.get<std::string>()) && !fs::exists(folder / file.get<std::string>()))
        missing.insert(file.get<std::string>());
  }
  return missing;
}

std::vector<std::string> missing_files(const fs::path& snapshot) {
  if (!fs::exists(snapshot / "model_index.json")) {
    const bool empty = fs::is_empty(snapshot);
    return empty ? std::vector<std::string>{"model_index.json"} : std::vector<std::string>();
  }
  std::vector<std::string> missing;
  const Json index = read_json(snapshot / "model_index.json", 1u << 20);
  for (const auto& [key, value] : index.items()) {
    if (!value.is_array() || value.size() != 2 || !value[0].is_string() || !plain_name(key)) continue;
    if (!fs::is_directory(snapshot / key)) {
      missing.push_back(cat(key, "/"));
      continue;
    }
    for (const std::string& file : missing_in(snapshot / key)) missing.push_back(cat(key, "/", file));
  }
  return missing;
}

size_t partial_blobs(const fs::path& repository) {
  if (!fs::is_directory(repository / "blobs")) return 0;
  return static_cast<size_t>(std::ranges::count_if(
      fs::directory_iterator(repository / "blobs"), fs::directory_iterator(),
      [](const fs::directory_entry& entry) { return entry.path().extension() == ".incomplete"; }));
}

fs::path cached(const std::string& name, const HubCache& cache) {
  const fs::path folder = cache.folder();
  std::string flat = name;
  flat.replace(flat.find('/'), 1, "--");
  const fs::path repository = folder / cat("models--", flat);
  fs::path snapshot = folder.empty() ? fs::path() : snapshot_of(repository);
  const size_t partial = folder.empty() ? 0 : partial_blobs(repository);
  if (snapshot.empty() && partial == 0)
    fail(Code::invalid, name, ": no such folder, and not in the cache ",
         folder.empty() ? "(HOME is not set)" : folder.string(), "; download it with ", download_command(name));
  std::vector<std::string> missing{"model_index.json"};
  if (!snapshot.empty()) missing = missing_files(snapshot);
  require(missing.empty(), name, ": the download in ", repository.string(), " is not complete: missing ",
          some_of(missing, 4), partial ? cat(", ", partial, " partial files (.incomplete)") : "", "; finish it with ",
          download_command(name));
  return snapshot;
}

}  // namespace

fs::path HubCache::folder() const {
  if (!hf_hub_cache.empty()) return hf_hub_cache;
  if (!hf_home.empty()) return fs::path(hf_home) / "hub";
  if (!xdg_cache_home.empty()) return fs::path(xdg_cache_home) / "huggingface" / "hub";
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "huggingface" / "hub";
}

fs::path resolve_model(std::string_view model, const HubCache& cache) {
  require(!model.empty() && model.find('\0') == std::string_view::npos,
          "model: no name given; use a folder or a Hugging Face name like owner/name");
  fs::path folder(model);
  if (fs::exists(folder)) return folder;
  require(looks_like_hub_name(model), model,
          ": no such folder; give a folder in the Diffusers layout or a Hugging Face name like owner/name");
  return cached(std::string(model), cache);
}

}  // namespace zoetrope
