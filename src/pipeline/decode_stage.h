// Latents to frames on the VAE ranks of a mesh. Each decodes its part of every frame and rounds it to pixels; rank 0
// gathers them and feeds the sink. The other ranks hold no decoder, they only hear how each chunk went.
#pragma once
#include <optional>

#include "config/request.h"
#include "mesh/mesh.h"
#include "models/source.h"
#include "models/wan_vae/decoder.h"
#include "pipeline/hooks.h"

namespace zoetrope {

class DecodeStage {
 public:
  DecodeStage(Ctx& c, const ModelSource& source, DType dtype, const Mesh& mesh);

  const WanVaeConfig& config() const { return config_; }

  // latents [T, H, W, z] fp32, alike on all ranks, which call this alike. Only rank 0's sink is used. AgreedError where
  // a chunk is not finite, or where every pixel of the video is the same.
  void run(Ctx& c, const Request& request, const Tensor& latents, const Hooks& hooks, FrameSink& sink) const;

 private:
  class Clip;

  const Mesh& mesh_;
  WanVaeConfig config_;
  std::optional<WanVaeDecoder> decoder_;
};

}  // namespace zoetrope
