// WanTransformer3DModel's config.json: missing keys take the class's defaults, unknown ones are ignored.
#pragma once
#include <array>

#include "base/json.h"

namespace zoetrope {

struct WanConfig {
  int64_t layers = 40, heads = 40, width = 128;  // width of a head
  int64_t in_channels = 16, out_channels = 16;
  int64_t text_dim = 4096, time_dim = 256, ffn_dim = 13824;
  int64_t patch_rows = 2, patch_columns = 2;
  int64_t max_positions = 1024;  // of each axis of the token grid
  float eps = 1e-6f;

  static constexpr int64_t text_rows = 512;  // keys of cross-attention; rows past the prompt are zero and attended
  int64_t dim() const { return heads * width; }
  // Widths of the rotary axes (time, rows, columns) within a head.
  std::array<int64_t, 3> rope_widths() const { return {width - 4 * (width / 6), 2 * (width / 6), 2 * (width / 6)}; }
  int64_t tokens(int64_t frames, int64_t rows, int64_t columns) const {
    return frames * (rows / patch_rows) * (columns / patch_columns);
  }
};

// What the forward pass can compute. Error(unsupported) names an image branch and other variants; Error(invalid)
// values that make no sense.
WanConfig parse_wan_config(const Json& json);
// The same, and the model is one of those that turn text into video; others are Error(unsupported) by name.
WanConfig wan_config(const Json& json);

}  // namespace zoetrope
