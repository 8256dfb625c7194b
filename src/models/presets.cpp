#include "base/error.h"
#include "models/models.h"

// Values of the released models (configs without the keys that say nothing about the computation).
namespace zoetrope {
namespace {

constexpr const char* scheduler =
    R"({"_class_name": "UniPCMultistepScheduler", "beta_end": 0.02, "beta_schedule": "linear",
  "beta_start": 0.0001, "disable_corrector": [], "final_sigmas_type": "zero", "flow_shift": 3.0, "lower_order_final": true,
  "num_train_timesteps": 1000, "predict_x0": true, "prediction_type": "flow_prediction", "solver_order": 2,
  "solver_type": "bh2", "steps_offset": 0, "thresholding": false, "timestep_spacing": "linspace",
  "use_flow_sigmas": true})";

constexpr const char* text_encoder = R"({"architectures": ["UMT5EncoderModel"], "model_type": "umt5", "d_ff": 10240,
  "d_kv": 64, "d_model": 4096, "feed_forward_proj": "gated-gelu", "layer_norm_epsilon": 1e-06, "num_heads": 64,
  "num_layers": 24, "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32, "vocab_size": 256384})";

constexpr const char* vae = R"({"_class_name": "AutoencoderKLWan", "attn_scales": [], "base_dim": 96,
  "dim_mult": [1, 2, 4, 4], "num_res_blocks": 2, "temperal_downsample": [false, true, true], "z_dim": 16,
  "latents_mean": [-0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715, 0.5517,
    -0.3632, -0.1922, -0.9497, 0.2503, -0.2921],
  "latents_std": [2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579,
    1.6382, 1.1253, 2.8251, 1.9160]})";

constexpr const char* small = R"({"_class_name": "WanTransformer3DModel", "attention_head_dim": 128,
  "cross_attn_norm": true, "eps": 1e-06, "ffn_dim": 8960, "freq_dim": 256, "in_channels": 16, "num_attention_heads": 12,
  "num_layers": 30, "out_channels": 16, "patch_size": [1, 2, 2], "qk_norm": "rms_norm_across_heads",
  "rope_max_seq_len": 1024, "text_dim": 4096})";

constexpr const char* expert = R"({"_class_name": "WanTransformer3DModel", "attention_head_dim": 128,
  "cross_attn_norm": true, "eps": 1e-06, "ffn_dim": 13824, "freq_dim": 256, "in_channels": 16,
  "num_attention_heads": 40, "num_layers": 40, "out_channels": 16, "patch_size": [1, 2, 2],
  "qk_norm": "rms_norm_across_heads", "rope_max_seq_len": 1024, "text_dim": 4096})";

constexpr const char* wan21_index = R"({"_class_name": "WanPipeline",
  "scheduler": ["diffusers", "UniPCMultistepScheduler"], "text_encoder": ["transformers", "UMT5EncoderModel"],
  "transformer": ["diffusers", "WanTransformer3DModel"], "vae": ["diffusers", "AutoencoderKLWan"]})";

constexpr ModelPreset::File wan21_small_files[] = {
    {"model_index.json", wan21_index},
    {"scheduler/scheduler_config.json", scheduler},
    {"text_encoder/config.json", text_encoder},
    {"transformer/config.json", small},
    {"vae/config.json", vae},
};

constexpr ModelPreset::File wan21_large_files[] = {
    {"model_index.json", wan21_index},
    {"scheduler/scheduler_config.json", scheduler},
    {"text_encoder/config.json", text_encoder},
    {"transformer/config.json", expert},
    {"vae/config.json", vae},
};

constexpr ModelPreset::File a14b_files[] = {
    {"model_index.json", R"({"_class_name": "WanPipeline", "boundary_ratio": 0.875,
      "scheduler": ["diffusers", "UniPCMultistepScheduler"], "text_encoder": ["transformers", "UMT5EncoderModel"],
      "transformer": ["diffusers", "WanTransformer3DModel"], "transformer_2": ["diffusers", "WanTransformer3DModel"],
      "vae": ["diffusers", "AutoencoderKLWan"]})"},
    {"scheduler/scheduler_config.json", scheduler},
    {"text_encoder/config.json", text_encoder},
    {"transformer/config.json", expert},
    {"transformer_2/config.json", expert},
    {"vae/config.json", vae},
};

constexpr ModelPreset presets[] = {
    {"wan2.1-t2v-1.3b", "Wan 2.1 text to video, 1.3 B parameters", wan21_small_files},
    {"wan2.1-t2v-14b", "Wan 2.1 text to video, 14 B parameters", wan21_large_files},
    {"wan2.2-t2v-a14b", "Wan 2.2 text to video, two experts of 14 B parameters", a14b_files},
};

}  // namespace

std::span<const ModelPreset> model_presets() { return presets; }

const ModelPreset& model_preset(const std::string& name) {
  std::string known;
  for (const ModelPreset& preset : presets) {
    if (name == preset.name) return preset;
    known += cat(known.empty() ? "" : ", ", preset.name);
  }
  fail(Code::invalid, "random:", name, ": no such preset; these are: ", known);
}

Json ModelPreset::config(const std::string& path) const {
  for (const File& file : files)
    if (path == file.path) return parse_json(file.json, cat("random:", name, '/', path));
  fail(Code::invalid, "random:", name, ": has no ", path);
}

}  // namespace zoetrope
