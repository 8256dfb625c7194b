// AutoencoderKLWan's config.json: missing keys take the class's defaults (those of the 2.1 VAE), unknown are ignored.
#pragma once
#include <vector>

#include "base/json.h"
#include "nn/parameters.h"

namespace zoetrope {

struct WanVaeConfig {
  int64_t z_dim = 16, base_dim = 96, decoder_base_dim = 96;
  std::vector<int> multipliers = {1, 2, 4, 4};           // of the stages' widths
  std::vector<bool> shrinks_time = {false, true, true};  // encoder order
  int64_t resnets = 2;                                   // a stage of the encoder; the decoder has one more
  std::vector<float> mean, std;                          // [z_dim] of the latents

  int64_t stages() const { return static_cast<int64_t>(multipliers.size()); }
  int64_t spatial_factor() const { return int64_t{1} << (stages() - 1); }
  int64_t temporal_factor() const;
  // T latent frames decode to 1 + factor (T - 1).
  int64_t frames_of(int64_t latent_frames) const { return 1 + temporal_factor() * (latent_frames - 1); }
};

// Error(unsupported) names the 2.2 VAE and other variants.
WanVaeConfig wan_vae_config(const Json& json);

// The encoder's tensors, which a decoder knows but does not read.
std::vector<nn::Entry> wan_vae_encoder_entries(const WanVaeConfig& config);
// The tensors of one residual block or of the middle, under a prefix that ends in a dot.
std::vector<nn::Entry> wan_vae_resnet_entries(const std::string& prefix, int64_t in, int64_t out);

}  // namespace zoetrope
