#include "models/wan/config.h"

#include "models/config.h"

namespace zoetrope {
namespace {

bool given(const Json& json, const char* key) { return json.contains(key) && !json[key].is_null(); }

void refuse_variants(const Json& json) {
  if (given(json, "image_dim") || given(json, "added_kv_proj_dim"))
    fail(Code::unsupported, "transformer: image_dim is set, so this is a Wan 2.1 image-to-video model (I2V or FLF2V); ",
         "its image branch is not built, text-to-video models are");
  const auto norm = value_or<std::string>(json, "qk_norm", "rms_norm_across_heads");
  if (norm != "rms_norm_across_heads")
    fail(Code::unsupported, "transformer: qk_norm \"", norm, "\" is not built; rms_norm_across_heads is");
  if (!value_or(json, "cross_attn_norm", true))
    fail(Code::unsupported, "transformer: cross_attn_norm false is not built; all released Wan models have true");
}

}  // namespace

WanConfig parse_wan_config(const Json& json) {
  require(json.is_object(), "transformer: config.json is not an object");
  refuse_variants(json);
  WanConfig config;
  const Numbers number{json, "transformer"};
  number("num_layers", config.layers, 1024);
  number("num_attention_heads", config.heads, 1024);
  number("attention_head_dim", config.width, 1024);
  number("in_channels", config.in_channels);
  config.out_channels = config.in_channels;  // a null means the same as in_channels
  if (!json.contains("out_channels")) config.out_channels = 16;
  number("out_channels", config.out_channels);
  number("text_dim", config.text_dim);
  number("freq_dim", config.time_dim);
  number("ffn_dim", config.ffn_dim);
  number("rope_max_seq_len", config.max_positions, 1 << 16);
  const auto patch = value_or(json, "patch_size", std::vector<int>{1, 2, 2});
  if (patch != std::vector<int>{1, 2, 2})
    fail(Code::unsupported, "transformer: patch_size ", short_dump(json["patch_size"]), " is not built; [1,2,2] is");
  require(config.width % 2 == 0 && config.time_dim % 2 == 0,
          "transformer: attention_head_dim and freq_dim must be even");
  read_epsilon(json, "transformer", "eps", config.eps);
  return config;
}

WanConfig wan_config(const Json& json) {
  const WanConfig config = parse_wan_config(json);
  if (config.in_channels == 36)
    fail(Code::unsupported, "transformer: 36 input channels, so this is Wan 2.2 I2V-A14B (image to video); image ",
         "conditioning is not built, Wan 2.2 T2V-A14B and Wan 2.1 T2V are");
  if (config.in_channels == 48)
    fail(Code::unsupported, "transformer: 48 input channels, so this is Wan 2.2 TI2V-5B; its per-token timesteps and ",
         "its VAE are not built, Wan 2.2 T2V-A14B and Wan 2.1 T2V are");
  if (config.in_channels != config.out_channels)
    fail(Code::unsupported, "transformer: ", config.in_channels, " input but ", config.out_channels,
         " output channels, so it is conditioned by more than text; that is not built");
  return config;
}

}  // namespace zoetrope
