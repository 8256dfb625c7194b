// An intake whose device is host memory, for a rank on the CPU: what CUDA's does with copies and kernels, in plain
// loops. What was sent is done
// only when somebody waits for it, so that a buffer that is used again too early shows.
#pragma once
#include <cstring>
#include <deque>
#include <vector>

#include "core/ctx.h"
#include "io/convert.h"

namespace zoetrope {

class HostPort : public Intake::Port {
 public:
  std::byte* buffer(size_t slot) override {
    if (slot >= buffers_.size()) buffers_.resize(slot + 1), sent_.resize(slot + 1);
    buffers_[slot].resize(Intake::slot_bytes);
    return buffers_[slot].data();
  }
  void after(const Event&) override {}
  void send(size_t slot, const Piece& piece) override { sent_[slot] = &piece, order_.push_back(slot); }
  bool arrived(size_t slot, bool look_at_it) override {
    bool finite = true;
    while (true) {  // in the order in which they were sent
      const size_t next = order_.front();
      order_.pop_front();
      finite = unpack(*sent_[next], buffers_[next].data());
      if (next == slot) return finite || !look_at_it;
    }
  }
  void drain() override { order_.clear(); }

 private:
  static bool unpack(const Piece& piece, const std::byte* stored) {
    if (!piece.to.defined()) return true;
    if (piece.clear.defined()) std::memset(piece.clear.raw(), 0, static_cast<size_t>(piece.clear.bytes()));
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
  std::vector<const Piece*> sent_;
  std::deque<size_t> order_;
};

inline void use_host_intake(Rank& rank) {
  rank.make_intake = [](int readers) { return std::make_unique<Intake>(std::make_unique<HostPort>(), readers); };
}

}  // namespace zoetrope
