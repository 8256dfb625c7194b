// An intake whose device is host memory, for a rank on the CPU: what CUDA's does with copies and kernels, in plain
// loops. What was sent is done only when somebody waits for it, so that a buffer that is used again too early shows.
#pragma once
#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "base/error.h"
#include "core/ctx.h"
#include "io/convert.h"

namespace zoetrope {

class HostPort : public Intake::Port {
 public:
  std::byte* buffer(size_t slot) override {
    if (slot >= buffers_.size()) buffers_.resize(slot + 1);
    buffers_[slot].resize(Intake::slot_bytes);
    return buffers_[slot].data();
  }
  void begin(const Event&, std::span<const Tensor> clear) override {
    for (const Tensor& x : clear) std::memset(x.raw(), 0, static_cast<size_t>(x.bytes()));
  }
  void send(size_t slot, Intake::Batch) override { order_.push_back(slot); }
  size_t arrived(size_t slot, Intake::Batch pieces) override {
    require(order_.front() == slot, "intake: waited for slot ", slot, " before ", order_.front());
    order_.pop_front();
    const std::byte* at = buffers_[slot].data();
    size_t bad = pieces.size();
    for (size_t i = 0; i < pieces.size(); at += Intake::room(pieces[i++]))
      if (!unpack(pieces[i], at) && pieces[i].not_finite) bad = std::min(bad, i);
    return bad;
  }
  void drain() override { order_.clear(); }

 private:
  static bool unpack(const Piece& piece, const std::byte* stored) {
    if (!piece.to.defined()) return true;
    const Unpack& u = piece.unpack;
    const DType to = piece.to.dtype();
    bool finite = true;
    for (int64_t r = 0; r < u.rows; ++r)
      for (int64_t i = 0; i < u.inner; ++i)
        for (int64_t k = 0; k < u.kernel; ++k) {
          auto* y = static_cast<std::byte*>(piece.to.raw()) + ((r * u.kernel + k) * u.pitch + i) * bytes_of(to);
          convert(stored + (r * u.row + i * u.kernel + k) * bytes_of(piece.stored), piece.stored, y, to, 1);
          finite &= all_finite(y, to, 1);
        }
    return finite;
  }

  std::vector<std::vector<std::byte>> buffers_;
  std::deque<size_t> order_;
};

inline void use_host_intake(Rank& rank) {
  rank.make_intake = [](const Intake::Buffers& buffers) {
    return std::make_unique<Intake>(std::make_unique<HostPort>(), buffers);
  };
}

}  // namespace zoetrope
