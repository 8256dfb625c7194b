#include "models/wan_vae/config.h"

#include <algorithm>

#include "models/config.h"

namespace zoetrope {
namespace {

void refuse_variants(const Json& json) {
  if (value_or(json, "is_residual", false) || value_or<int64_t>(json, "z_dim", 16) == 48)
    fail(Code::unsupported, "vae: is_residual and 48 latent channels, so this is the Wan 2.2 VAE (of TI2V-5B and ",
         "Cosmos3), which is not built; the 2.1 VAE is");
  if (json.contains("patch_size") && !json["patch_size"].is_null())
    fail(Code::unsupported, "vae: patch_size ", short_dump(json["patch_size"]), " is not built; the 2.1 VAE has null");
  if (!value_or(json, "attn_scales", std::vector<float>{}).empty())
    fail(Code::unsupported, "vae: attention at the scales ", short_dump(json["attn_scales"]), " is not built");
  if (value_or<int64_t>(json, "out_channels", 3) != 3 || value_or<int64_t>(json, "in_channels", 3) != 3)
    fail(Code::unsupported, "vae: frames with other than 3 channels are not built");
}

// The statistics of the released 2.1 VAE, which are the class's defaults.
const std::vector<float> default_mean = {-0.7571f, -0.7089f, -0.9113f, 0.1075f,  -0.1745f, 0.9653f,
                                         -0.1517f, 1.5508f,  0.4134f,  -0.0715f, 0.5517f,  -0.3632f,
                                         -0.1922f, -0.9497f, 0.2503f,  -0.2921f};
const std::vector<float> default_std = {2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f, 2.6052f, 2.0743f,
                                        3.2687f, 2.1526f, 2.8652f, 1.5579f, 1.6382f, 1.1253f, 2.8251f, 1.9160f};

void check(const WanVaeConfig& config) {
  const auto& many = config.multipliers;
  require(many.size() >= 2 && many.size() <= 8 && std::ranges::all_of(many, [](int m) { return m > 0 && m <= 64; }) &&
              config.shrinks_time.size() + 1 == many.size(),
          "vae: dim_mult has ", many.size(), " entries and temperal_downsample ", config.shrinks_time.size(),
          "; the second needs one fewer");
  const auto z = static_cast<size_t>(config.z_dim);
  require(config.mean.size() == z && config.std.size() == z, "vae: latents_mean has ", config.mean.size(),
          " and latents_std ", config.std.size(), " values, z_dim is ", config.z_dim);
  require(std::ranges::all_of(config.std, [](float s) { return s > 0; }), "vae: latents_std must be positive");
}

void append(std::vector<nn::Entry>& to, std::vector<nn::Entry> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// A convolution with its bias.
std::vector<nn::Entry> conv_entries(const std::string& prefix, const Shape& shape) {
  return {{prefix + ".weight", shape}, {prefix + ".bias", {shape[0]}}};
}

std::vector<nn::Entry> middle_entries(const std::string& prefix, int64_t dim) {
  std::vector<nn::Entry> list = wan_vae_resnet_entries(prefix + "resnets.0.", dim, dim);
  list.push_back({prefix + "attentions.0.norm.gamma", {dim, 1, 1}});
  append(list, conv_entries(prefix + "attentions.0.to_qkv", {3 * dim, dim, 1, 1}));
  append(list, conv_entries(prefix + "attentions.0.proj", {dim, dim, 1, 1}));
  append(list, wan_vae_resnet_entries(prefix + "resnets.1.", dim, dim));
  return list;
}

}  // namespace

int64_t WanVaeConfig::temporal_factor() const {
  return int64_t{1} << std::count(shrinks_time.begin(), shrinks_time.end(), true);
}

WanVaeConfig wan_vae_config(const Json& json) {
  require(json.is_object(), "vae: config.json is not an object");
  refuse_variants(json);
  WanVaeConfig config;
  const Numbers number{json, "vae", 1 << 16};
  number("z_dim", config.z_dim, 4096);
  number("base_dim", config.base_dim);
  config.decoder_base_dim = config.base_dim;
  number("decoder_base_dim", config.decoder_base_dim);
  number("num_res_blocks", config.resnets, 64);
  config.multipliers = value_or(json, "dim_mult", config.multipliers);
  config.shrinks_time = value_or(json, "temperal_downsample", config.shrinks_time);
  config.mean = value_or(json, "latents_mean", default_mean);
  config.std = value_or(json, "latents_std", default_std);
  check(config);
  return config;
}

std::vector<nn::Entry> wan_vae_resnet_entries(const std::string& prefix, int64_t in, int64_t out) {
  std::vector<nn::Entry> list{{prefix + "norm1.gamma", {in, 1, 1, 1}}};
  append(list, conv_entries(prefix + "conv1", {out, in, 3, 3, 3}));
  list.push_back({prefix + "norm2.gamma", {out, 1, 1, 1}});
  append(list, conv_entries(prefix + "conv2", {out, out, 3, 3, 3}));
  if (in != out) append(list, conv_entries(prefix + "conv_shortcut", {out, in, 1, 1, 1}));
  return list;
}

std::vector<nn::Entry> wan_vae_encoder_entries(const WanVaeConfig& config) {
  std::vector<nn::Entry> list = conv_entries("encoder.conv_in", {config.base_dim, 3, 3, 3, 3});
  int64_t dim = config.base_dim, flat = 0;
  const auto prefix = [&] { return cat("encoder.down_blocks.", flat++, '.'); };
  for (size_t stage = 0; stage < config.multipliers.size(); ++stage) {
    const int64_t out = config.base_dim * config.multipliers[stage];
    for (int64_t i = 0; i < config.resnets; ++i, dim = out) append(list, wan_vae_resnet_entries(prefix(), dim, out));
    if (stage + 1 == config.multipliers.size()) break;
    const std::string down = prefix();
    append(list, conv_entries(down + "resample.1", {dim, dim, 3, 3}));
    if (config.shrinks_time[stage]) append(list, conv_entries(down + "time_conv", {dim, dim, 3, 1, 1}));
  }
  append(list, middle_entries("encoder.mid_block.", dim));
  list.push_back({"encoder.norm_out.gamma", {dim, 1, 1, 1}});
  append(list, conv_entries("encoder.conv_out", {2 * config.z_dim, dim, 3, 3, 3}));
  append(list, conv_entries("quant_conv", {2 * config.z_dim, 2 * config.z_dim, 1, 1, 1}));
  return list;
}

}  // namespace zoetrope
