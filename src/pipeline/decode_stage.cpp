#include "pipeline/decode_stage.h"

#include <algorithm>
#include <limits>

#include "base/deadline.h"
#include "comm/agree.h"
#include "ops/ops.h"
#include "pipeline/finite.h"
#include "pipeline/frame_copies.h"

namespace zoetrope {

// One video on its way, as this rank sees it. A chunk is issued and the host takes the one before it, so that the
// device is never out of work while frames are looked at and handed on.
class DecodeStage::Clip {
 public:
  Clip(Ctx& c, const DecodeStage& stage, const Request& request, FrameSink& sink)
      : mesh_(stage.mesh_),
        sink_(sink),
        frame_bytes_(static_cast<size_t>(3) * request.width * request.height),
        total_(request.num_frames - request.drop_frames),
        copies_(c, {first() ? stage.config_.temporal_factor() : 0, request.height, request.width, 3}) {
    if (stage.decoder_) stream_.emplace(*stage.decoder_);
    if (first()) sink.begin(request.width, request.height, total_, request.fps);
  }

  int sent() const { return sent_; }
  int total() const { return total_; }

  void issue(Ctx& c, Fork& side, const Tensor& latents, int64_t t) {
    const Tensor nothing = c.empty({3}, DType::f32);
    Tensor range, frames;
    if (stream_) {
      const Tensor video = stream_->decode_next(c, latents.rows(t, t + 1));  // this rank's part of [1 or 4, H, W, 3]
      c.tap(cat("video.", t), video);
      if (video.size() > 0) range = value_range(c, video);  // of more ranks than columns the last have none
      frames = stream_->gather(c, to_pixels(c, video));
    }
    has_part_ = range.defined();
    if (!has_part_) fill(c, range = nothing, 0);
    if (!c.dry() && mesh_.world().size() > 1) mesh_.world().all_reduce(c, range.rows(2, 3));
    copies_.send(c, side, range, first() ? frames : Tensor());
  }

  // The oldest chunk that was issued, if the host has not seen it.
  bool take(Ctx& c) {
    if (!copies_.pending() || c.dry()) return false;
    const FrameCopies::Chunk chunk = copies_.receive(c);
    require_finite(chunk.range[2], cat("vae_decode: latent frame ", taken_++));
    if (has_part_) low_ = std::min(low_, chunk.range[0]), high_ = std::max(high_, chunk.range[1]);
    for (size_t at = 0; at < chunk.frames.size() && sent_ < total_; at += frame_bytes_, ++sent_)
      sink_.frame(chunk.frames.subspan(at, frame_bytes_));
    return true;
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

  const Mesh& mesh_;
  FrameSink& sink_;
  std::optional<WanVaeDecoder::Stream> stream_;
  size_t frame_bytes_;
  int total_, sent_ = 0, taken_ = 0;
  bool has_part_ = false;
  float low_ = std::numeric_limits<float>::max(), high_ = std::numeric_limits<float>::lowest();
  FrameCopies copies_;
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
  Scope whole(c.scratch());
  Clip clip(c, *this, request, sink);
  Fork side(c);
  const auto take = [&] {
    if (clip.take(c)) hooks.report({Stage::vae_decode, clip.sent(), clip.total(), watch.seconds()});
  };
  for (int64_t t = 0; t < latents.dim(0); ++t) {
    hooks.check();
    Scope scope(c.scratch());
    const Stopwatch chunk;
    clip.issue(c, side, latents, t);
    if (t > 0) take();
    mesh_.world().waits().observe(Wait::vae_chunk, chunk.seconds());
  }
  take();
  clip.require_content(c);
}

}  // namespace zoetrope
