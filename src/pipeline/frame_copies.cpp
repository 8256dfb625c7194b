#include "pipeline/frame_copies.h"

#include <cstring>

#include "base/error.h"
#include "ops/ops.h"

namespace zoetrope {

int64_t ClipShape::host_bytes() const { return chunks * FrameCopies::range_bytes + frames.size(); }

FrameCopies::FrameCopies(Ctx& c, const ClipShape& clip, std::byte* host)
    : clip_(clip),
      range_(c.empty({3}, DType::f32)),
      room_(c.empty(clip.frames.with(0, clip.frames.dim(0) > 0 ? clip.most : 0), DType::u8)),
      host_(host) {}

void FrameCopies::send(Ctx& c, Fork& side, const Tensor& range, const Tensor& frames) {
  const int64_t count = frames.defined() ? frames.dim(0) : 0;
  require(chunks_ < clip_.chunks && frames_ + count <= clip_.frames.dim(0), "frames: more than the ",
          clip_.frames.dim(0), " frames in ", clip_.chunks, " chunks of the clip");
  side.before_parent();  // the last chunk has left the device's room
  copy(c, range, range_);
  const Tensor here = frames.defined() ? room_.rows(0, count) : Tensor();
  if (here.defined()) copy(c, frames, here);
  side.after_parent();
  if (c.dry()) return;
  std::byte* const range_to = host_ + chunks_ * range_bytes;
  std::byte* const to = host_ + clip_.chunks * range_bytes + clip_.frames.with(0, frames_).size();
  copy(side, range_, {range_to, range_.shape(), range_.dtype()});
  if (here.defined()) copy(side, here, {to, here.shape(), here.dtype()});
  const auto bytes = static_cast<size_t>(here.defined() ? here.bytes() : 0);
  sent_.push_back({side.ctx().stream().record(), range_to, {reinterpret_cast<const uint8_t*>(to), bytes}});
  ++chunks_, frames_ += count;
}

FrameCopies::Chunk FrameCopies::receive(Ctx& c) {
  require(pending(), "frames: nothing was sent");
  const Sent next = sent_.front();
  sent_.pop_front();
  next.done.stream->block_until(next.done.number);
  c.check_stop();  // a copy may have been left out
  Chunk chunk{{}, next.frames};
  std::memcpy(chunk.range.data(), next.range, sizeof chunk.range);
  return chunk;
}

}  // namespace zoetrope
