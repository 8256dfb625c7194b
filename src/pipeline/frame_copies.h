// Decoded frames on their way to the host beside the decode of the next ones: a side stream copies what a chunk left,
// and the host looks at it one chunk later. Two chunks of memory on the host, one on the device.
#pragma once
#include <array>
#include <memory>
#include <span>

#include "core/ctx.h"

namespace zoetrope {

class FrameCopies {
 public:
  // What one chunk left.
  struct Chunk {
    std::array<float, 3> range;       // value_range of this rank's part, the last summed over all ranks
    std::span<const uint8_t> frames;  // [t, H, W, 3]; empty where the rank gets none
  };

  // frames: the largest chunk [t, H, W, 3]; t = 0: this rank gets none. Takes scratch until its scope ends; the fork
  // joins before that.
  FrameCopies(Ctx& c, const Shape& frames);

  // In the order of the chunks. range [3] fp32; frames uint8, or undefined. The device works on when these return.
  void send(Ctx& c, Fork& side, const Tensor& range, const Tensor& frames);
  bool pending() const { return sent_ > received_; }
  // Waits for the oldest chunk that was not received; good until the second send after it. In a dry context none is.
  Chunk receive(Ctx& c);

 private:
  struct Half {
    Event done;
    int64_t bytes = 0;
  };
  std::byte* host(int64_t chunk) const { return host_.get() + chunk % 2 * (range_bytes + room_.bytes()); }

  static constexpr int64_t range_bytes = 256;
  Tensor range_, room_;              // [3] fp32, frames uint8: of the chunk that is copied
  std::shared_ptr<std::byte> host_;  // twice a range and frames
  std::array<Half, 2> halves_;
  int64_t sent_ = 0, received_ = 0;
};

}  // namespace zoetrope
