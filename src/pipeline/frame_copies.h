// Decoded frames on their way to the host beside the decode of the next ones: a side stream copies what a chunk left
// into memory for the whole clip, so that the device never waits for whoever looks at it. One chunk of memory on the
// device.
#pragma once
#include <array>
#include <deque>
#include <span>

#include "core/ctx.h"

namespace zoetrope {

// A clip as one rank gets it.
struct ClipShape {
  int64_t chunks = 0;
  Shape frames;      // [T, H, W, 3] of all chunks; T = 0: this rank gets none
  int64_t most = 0;  // frames of the largest chunk

  int64_t host_bytes() const;  // of the whole clip
};

class FrameCopies {
 public:
  // What one chunk left.
  struct Chunk {
    std::array<float, 3> range;       // value_range of this rank's part, the last summed over all ranks
    std::span<const uint8_t> frames;  // [t, H, W, 3]; empty where the rank gets none; good while the host memory is
  };

  // host: clip.host_bytes() that streams reach (ops/host.h), null in a dry context; outlives this. Takes scratch until
  // its scope ends; the fork joins before that.
  FrameCopies(Ctx& c, const ClipShape& clip, std::byte* host);

  // In the order of the chunks. range [3] fp32; frames uint8, or undefined. The device works on when these return.
  void send(Ctx& c, Fork& side, const Tensor& range, const Tensor& frames);
  bool pending() const { return !sent_.empty(); }
  // Waits for the oldest chunk that was not received. In a dry context none is.
  Chunk receive(Ctx& c);

 private:
  struct Sent {
    Event done;
    const std::byte* range;
    std::span<const uint8_t> frames;
  };

  static constexpr int64_t range_bytes = 256;
  friend struct ClipShape;
  ClipShape clip_;
  Tensor range_, room_;  // [3] fp32, frames uint8: of the chunk that is copied
  std::byte* host_;      // ranges of all chunks, then frames
  int64_t chunks_ = 0, frames_ = 0;
  std::deque<Sent> sent_;  // and not received
};

}  // namespace zoetrope
