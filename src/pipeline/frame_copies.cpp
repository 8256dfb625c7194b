#include "pipeline/frame_copies.h"

#include <cstring>

#include "base/error.h"
#include "ops/host.h"
#include "ops/ops.h"

namespace zoetrope {

FrameCopies::FrameCopies(Ctx& c, const Shape& frames)
    : range_(c.empty({3}, DType::f32)), room_(c.empty(frames, DType::u8)) {
  if (!c.dry()) host_ = host_memory(c, static_cast<size_t>(2 * (range_bytes + room_.bytes())));
}

void FrameCopies::send(Ctx& c, Fork& side, const Tensor& range, const Tensor& frames) {
  require(sent_ - received_ < 2, "frames: a third chunk was sent before the first was received");
  side.before_parent();  // the last chunk has left the device's room
  copy(c, range, range_);
  const Tensor here = frames.defined() ? room_.rows(0, frames.dim(0)) : Tensor();
  if (here.defined()) copy(c, frames, here);
  side.after_parent();
  if (c.dry()) return;
  std::byte* const to = host(sent_);
  copy(side, range_, {to, range_.shape(), range_.dtype()});
  if (here.defined()) copy(side, here, {to + range_bytes, here.shape(), here.dtype()});
  halves_[static_cast<size_t>(sent_++ % 2)] = {side.ctx().stream().record(), here.defined() ? here.bytes() : 0};
}

FrameCopies::Chunk FrameCopies::receive(Ctx& c) {
  require(pending(), "frames: nothing was sent");
  const Half& half = halves_[static_cast<size_t>(received_ % 2)];
  half.done.stream->block_until(half.done.number);
  c.check_stop();  // a copy may have been left out
  const std::byte* from = host(received_++);
  Chunk chunk{{}, {reinterpret_cast<const uint8_t*>(from + range_bytes), static_cast<size_t>(half.bytes)}};
  std::memcpy(chunk.range.data(), from, sizeof chunk.range);
  return chunk;
}

}  // namespace zoetrope
