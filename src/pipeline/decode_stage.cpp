#include "pipeline/decode_stage.h"

#include <algorithm>
#include <limits>

#include "base/deadline.h"
#include "comm/agree.h"
#include "ops/host.h"
#include "ops/ops.h"
#include "pipeline/finite.h"
#include "pipeline/frame_feed.h"

namespace zoetrope {
namespace {

// While it lives, the request region is where scratch was, and scratch lies behind what the request region holds. The
// decoder's history is about as large as the scratch of the steps, and its scratch small: so both stages find room in
// the same pages, and none have to change hands between them.
class Crossed {
 public:
  explicit Crossed(Rank& rank) : rank_(rank) { std::swap(rank.request, rank.scratch); }
  ~Crossed() { std::swap(rank_.request, rank_.scratch); }
  Crossed(const Crossed&) = delete;
  Crossed& operator=(const Crossed&) = delete;

 private:
  Rank& rank_;
};

bool on_host(const Ctx& c) { return c.traits().device == DeviceKind::cpu; }

}  // namespace

// One video on its way, as this rank sees it. A chunk is issued and the host looks at the one before it, so that the
// device is never out of work meanwhile; whoever takes the frames may lag behind.
class DecodeStage::Clip {
 public:
  Clip(Ctx& c, const DecodeStage& stage, const Request& request, const Hooks& hooks, FrameSink& sink)
      : mesh_(stage.mesh_), hooks_(hooks), copies_(c, stage.clip_of(request), host(c, stage, request)) {
    if (stage.decoder_) stream_.emplace(*stage.decoder_);
    if (!first()) return;
    const int total = request.num_frames - request.drop_frames;
    sink.begin(request.width, request.height, total, request.fps);
    if (c.dry()) return;
    const auto fed = [this, total](int sent) {
      hooks_.report({Stage::vae_decode, sent, total, watch_.seconds()});
      hooks_.check();
    };
    feed_.emplace(sink, static_cast<size_t>(3) * request.width * request.height, total, fed);
  }

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

  // The oldest chunk that was issued, on all ranks at the same point: what is wrong with it, all of them say.
  void take(Ctx& c) {
    if (c.dry()) return;
    const FrameCopies::Chunk chunk = copies_.receive(c);
    require_finite(chunk.range[2], cat("vae_decode: latent frame ", taken_++));
    if (has_part_) low_ = std::min(low_, chunk.range[0]), high_ = std::max(high_, chunk.range[1]);
    if (feed_) feed_->push(chunk.frames);
  }

  void finish() {
    if (feed_) feed_->finish(hooks_.stop);
  }

  void require_content(Ctx& c) const {
    Scope scope(c.scratch());
    const Tensor own = c.empty({2}, DType::f32), both = c.empty({2 * mesh_.world().size()}, DType::f32);
    if (c.dry()) return;
    const std::array<float, 2> ends{low_, high_};
    c.upload(ends.data(), own);
    mesh_.world().all_gather(c, own, both);
    const auto all = c.fetch<float>(both, 0);  // [2P]: low, high of each rank's part
    float low = all[0], high = all[1];
    for (size_t i = 2; i < all.size(); i += 2) low = std::min(low, all[i]), high = std::max(high, all[i + 1]);
    if (low == high)
      throw AgreedError(Code::device, "vae_decode: every pixel of the video is the same; the latents say nothing");
  }

 private:
  bool first() const { return mesh_.world().rank() == 0; }

  // Where a device's memory is the host's, the clip lies in scratch and is counted there.
  static std::byte* host(Ctx& c, const DecodeStage& stage, const Request& request) {
    if (!on_host(c)) return stage.host_.get();
    return static_cast<std::byte*>(c.empty({stage.clip_of(request).host_bytes()}, DType::u8).raw());
  }

  const Mesh& mesh_;
  const Hooks& hooks_;
  const Stopwatch watch_;
  std::optional<WanVaeDecoder::Stream> stream_;
  int taken_ = 0;
  bool has_part_ = false;
  float low_ = std::numeric_limits<float>::max(), high_ = std::numeric_limits<float>::lowest();
  FrameCopies copies_;
  std::optional<FrameFeed> feed_;  // of the first rank
};

DecodeStage::DecodeStage(Ctx& c, const ModelSource& source, DType dtype, const Mesh& mesh) : mesh_(mesh) {
  const ModelPart& part = source.at("vae");
  config_ = wan_vae_config(part.config);
  if (mesh.vae())
    decoder_.emplace(c, config_, *part.weights, dtype, "vae", VaeRanks{mesh.vae(), mesh.shape().vae_split});
}

ClipShape DecodeStage::clip_of(const Request& request) const {
  const int64_t frames = mesh_.world().rank() == 0 ? request.num_frames : 0;
  return {request.latent_frames(), {frames, request.height, request.width, 3}, config_.temporal_factor()};
}

void DecodeStage::ready(Ctx& c, const Request& request) {
  const int64_t bytes = clip_of(request).host_bytes();
  if (c.dry() || on_host(c) || bytes <= host_bytes_) return;
  host_.reset(), host_bytes_ = 0;
  host_ = host_memory(c, static_cast<size_t>(bytes)), host_bytes_ = bytes;
}

void DecodeStage::run(Ctx& c, const Request& request, const Tensor& latents, const Hooks& hooks,
                      FrameSink& sink) const {
  const Waiting waiting(mesh_.world().waits(), Wait::vae_chunk);
  const Crossed crossed(c.rank());
  Scope history(c.request()), whole(c.scratch());
  Clip clip(c, *this, request, hooks, sink);
  Fork side(c);
  for (int64_t t = 0; t < latents.dim(0); ++t) {
    hooks.check();
    Scope scope(c.scratch());
    const Stopwatch chunk;
    clip.issue(c, side, latents, t);
    if (t > 0) clip.take(c);
    mesh_.world().waits().observe(Wait::vae_chunk, chunk.seconds());
  }
  clip.take(c);
  clip.require_content(c);
  clip.finish();
}

}  // namespace zoetrope
