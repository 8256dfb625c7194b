// Engine settings: a YAML file in the field's own terms (`--config`), so that published recipes load unchanged. One
// table names each key with its type, range and meaning; unknown keys are errors that name the nearest known one.
#pragma once
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace zoetrope {

struct Resolution {
  int height = 0, width = 0;
  friend bool operator==(const Resolution&, const Resolution&) = default;
};

struct Settings {
  std::string attention_backend = "AUTO";  // FA4, VANILLA, CUDNN and AUTO map to what this build has
  int cfg_size = 1, tp_size = 1, ulysses_size = 1, ring_size = 1;
  std::array<int, 2> attn2d_size{1, 1};  // rows, columns
  bool async_ulysses = false;
  std::optional<int> parallel_vae_size;  // unset: auto
  std::string parallel_vae_split_dim = "width";
  std::vector<Resolution> resolutions;  // shapes to warm up
  std::vector<int> num_frames;
  bool skip_warmup = false;
  bool cuda_graph = true;
  std::optional<int> memory_limit_gib;

  int world() const { return cfg_size * tp_size * ring_size * attn2d_size[0] * attn2d_size[1] * ulysses_size; }
};

// Error(invalid) names the key as written, dotted: "parallel_config.cfg_size: 0 is outside 1 to 1024".
Settings parse_settings(const Json& tree, std::string_view where);
Settings read_settings(const std::filesystem::path& file);

std::string settings_as_markdown();  // docs/settings.md

}  // namespace zoetrope
