// Models by name, `owner/name`, where the Hugging Face tools keep what they downloaded. Nothing is ever fetched here.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace zoetrope {

// Values of the environment variables that say where the cache is; empty where unset. Read by cli/.
struct HubCache {
  std::string hf_hub_cache;    // HF_HUB_CACHE
  std::string hf_home;         // HF_HOME
  std::string xdg_cache_home;  // XDG_CACHE_HOME
  std::string home;            // HOME

  std::filesystem::path folder() const;  // the first that is set, as huggingface_hub has it; empty if none is
};

// A folder as given, or the snapshot of `owner/name` in the cache. Otherwise Error(invalid) with the command that
// downloads it and its size where we know it. A download that is not complete is refused, its missing files named.
std::filesystem::path resolve_model(std::string_view model, const HubCache& cache);

}  // namespace zoetrope
