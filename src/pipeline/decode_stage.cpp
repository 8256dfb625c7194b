#include "pipeline/decode_stage.h"

#include <algorithm>
#include <limits>

#include "base/deadline.h"
#include "comm/agree.h"
#include "ops/ops.h"
#include "pipeline/finite.h"

namespace zoetrope {

// One video on its way, as this rank sees it.
class DecodeStage::Clip {
 public:
  Clip(const DecodeStage& stage, const Request& request, FrameSink& sink)
      : mesh_(stage.mesh_), sink_(sink), total_(request.num_frames - request.drop_frames) {
    if (stage.decoder_) stream_.emplace(*stage.decoder_);
    if (first()) sink.begin(request.width, request.height, total_, request.fps);
  }

  int sent() const { return sent_; }
  int total() const { return total_; }

  void chunk(Ctx& c, const Tensor& latents, int64_t t) {
    Range range;
    Tensor video;  // this rank's part of [1 or 4, H, W, 3]
    if (stream_) {
      video = stream_->decode_next(c, latents.rows(t, t + 1));
      c.tap(cat("video.", t), video);
      if (video.size() > 0) {  // of more ranks than columns the last have none
        range = range_of(c, video);
        low_ = std::min(low_, range.low), high_ = std::max(high_, range.high);
      }
    }
    require_finite(sum_over(c, mesh_.world(), {range.bad})[0], cat("vae_decode: latent frame ", t));
    if (!stream_) return;
    const Tensor frames = stream_->gather(c, to_pixels(c, video));
    if (first() && !c.dry()) send(c, frames);  // dry: frames are large, and nobody looks
  }

  void require_content(Ctx& c) const {
    if (c.dry()) return;
    Scope scope(c.scratch());
    const Tensor own = c.empty({2}, DType::f32);
    const std::array<float, 2> ends{low_, high_};
    c.upload(ends.data(), own);
    const auto all = c.fetch<float>(mesh_.world().all_gather(c, own), 0);  // [2P]: low, high of each rank's part
    float low = all[0], high = all[1];
    for (size_t i = 2; i < all.size(); i += 2) low = std::min(low, all[i]), high = std::max(high, all[i + 1]);
    if (low == high)
      throw AgreedError(Code::device, "vae_decode: every pixel of the video is the same; the latents say nothing");
  }

 private:
  bool first() const { return mesh_.world().rank() == 0; }

  void send(Ctx& c, const Tensor& frames) {
    const auto bytes = c.fetch<uint8_t>(frames, uint8_t{0});
    const size_t size = bytes.size() / static_cast<size_t>(frames.dim(0));
    for (int64_t f = 0; f < frames.dim(0) && sent_ < total_; ++f, ++sent_)
      sink_.frame(std::span(bytes).subspan(static_cast<size_t>(f) * size, size));
  }

  const Mesh& mesh_;
  FrameSink& sink_;
  std::optional<WanVaeDecoder::Stream> stream_;
  int total_, sent_ = 0;
  float low_ = std::numeric_limits<float>::max(), high_ = std::numeric_limits<float>::lowest();
};

DecodeStage::DecodeStage(Ctx& c, const ModelSource& source, DType dtype, const Mesh& mesh) : mesh_(mesh) {
  const ModelPart& part = source.at("vae");
  config_ = wan_vae_config(part.config);
  if (mesh.vae())
    decoder_.emplace(c, config_, *part.weights, dtype, "vae", VaeRanks{mesh.vae(), mesh.shape().vae_split});
}

void DecodeStage::run(Ctx& c, const Request& request, const Tensor& latents, const Hooks& hooks,
                      FrameSink& sink) const {
  const Waiting waiting(mesh_.world().waits(), Wait::vae_chunk);
  const Stopwatch watch;
  Clip clip(*this, request, sink);
  for (int64_t t = 0; t < latents.dim(0); ++t) {
    hooks.check();
    Scope scope(c.scratch());
    const Stopwatch chunk;
    clip.chunk(c, latents, t);
    mesh_.world().waits().observe(Wait::vae_chunk, chunk.seconds());
    if (!c.dry()) hooks.report({Stage::vae_decode, clip.sent(), clip.total(), watch.seconds()});
  }
  clip.require_content(c);
}

}  // namespace zoetrope
