// Latents to frames on the VAE ranks of a mesh. Each decodes its part of every frame and rounds it to pixels; rank 0
// gathers them and feeds the sink. The other ranks hold no decoder, they only hear how each chunk went.
#pragma once
#include <optional>

#include "config/request.h"
#include "mesh/mesh.h"
#include "models/source.h"
#include "models/wan_vae/decoder.h"
#include "pipeline/frame_copies.h"
#include "pipeline/hooks.h"

namespace zoetrope {

class DecodeStage {
 public:
  DecodeStage(Ctx& c, const ModelSource& source, DType dtype, const Mesh& mesh);

  const WanVaeConfig& config() const { return config_; }

  // Before anything else of a request: the host's memory for its frames where a device wants it pinned, kept for later
  // requests that have no more.
  void ready(Ctx& c, const Request& request);

  // latents [T, H, W, z] fp32, alike on all ranks, which call this alike. Frames reach the sink in a thread of its own,
  // and so does the progress of this stage; all have when it returns. Only rank 0's sink is used. AgreedError where
  // a chunk is not finite, or where every pixel of the video is the same.
  void run(Ctx& c, const Request& request, const Tensor& latents, const Hooks& hooks, FrameSink& sink) const;

 private:
  class Clip;

  ClipShape clip_of(const Request& request) const;

  const Mesh& mesh_;
  WanVaeConfig config_;
  std::optional<WanVaeDecoder> decoder_;
  std::shared_ptr<std::byte> host_;  // pinned; null on a device whose memory is the host's
  int64_t host_bytes_ = 0;
};

}  // namespace zoetrope
