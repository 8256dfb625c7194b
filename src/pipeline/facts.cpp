#include "pipeline/facts.h"

#include "base/error.h"
#include "models/umt5/umt5.h"
#include "models/wan/config.h"
#include "models/wan_vae/config.h"

namespace zoetrope {
namespace {

void check_parts(const ModelSource& source, const WanConfig& transformer) {
  const ModelPart& vae = source.at("vae");
  const WanVaeConfig vae_config = wan_vae_config(vae.config);
  require(vae_config.z_dim == transformer.in_channels, vae.where, ": this VAE makes latents of ", vae_config.z_dim,
          " channels, the transformer takes ", transformer.in_channels,
          vae_config.z_dim == 48 || transformer.in_channels == 48
              ? "; Wan 2.2 TI2V-5B takes the 2.2 VAE, all others the 2.1 VAE"
              : "");
  const ModelPart& text = source.at("text_encoder");
  const Umt5Config text_config = umt5_config(text.config);
  require(text_config.dim == transformer.text_dim, text.where, ": text vectors of ", text_config.dim,
          ", the transformer takes ", transformer.text_dim);
  if (!source.has("transformer_2")) return;
  const ModelPart& second = source.at("transformer_2");
  const WanConfig other = wan_config(second.config);
  require(other.dim() == transformer.dim() && other.in_channels == transformer.in_channels &&
              other.out_channels == transformer.out_channels && other.text_dim == transformer.text_dim,
          second.where, ": the two experts differ in width or channels");
}

}  // namespace

ModelInfo model_info(const ModelSource& source) {
  const WanConfig transformer = wan_config(source.at("transformer").config);
  check_parts(source, transformer);
  ModelInfo info;
  info.pipeline_class = value_or(source.index, "_class_name", std::string());
  info.source = source.name;
  info.experts = source.has("transformer_2") ? 2 : 1;
  info.dim = static_cast<int>(transformer.dim());
  info.layers = static_cast<int>(transformer.layers);
  info.in_channels = static_cast<int>(transformer.in_channels);
  info.spatial_scale = static_cast<int>(wan_vae_config(source.at("vae").config).spatial_factor());
  const auto boundary = source.index.find("boundary_ratio");
  if (info.experts == 2 && boundary != source.index.end() && boundary->is_number()) info.boundary_ratio = *boundary;
  info.folder_flow_shift = read_scheduler_config(source.scheduler, cat(source.name, "/scheduler")).flow_shift;
  return info;
}

SchedulerConfig scheduler_config(const ModelSource& source, const Request& request) {
  SchedulerConfig config = read_scheduler_config(source.scheduler, cat(source.name, "/scheduler"));
  config.flow_shift = request.flow_shift;
  return config;
}

}  // namespace zoetrope
