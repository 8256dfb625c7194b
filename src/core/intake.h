// Brings stored numbers into a device's memory: several threads read pieces of files into a few buffers of host memory;
// each buffer is copied, converted and put in its place, behind what was sent before, while others are read.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "base/rounding.h"
#include "core/stream.h"
#include "core/tensor.h"
#include "core/unpack.h"

namespace zoetrope {

struct Piece {
  std::function<void(std::span<std::byte> to)> read;  // its bytes as they are stored; called by any thread, once
  DType stored = DType::f32;                          // fp32, fp16 or bf16
  Unpack unpack;
  Tensor to;                         // fp32 or bf16; its first element is the unpacked piece's first. Undefined: the
                                     // piece is read and goes nowhere, which is what a benchmark compares with
  std::function<void()> not_finite;  // throws, where a result is no finite number; empty: nobody looks
  Tensor clear;                      // becomes zeros before any piece comes

  size_t bytes() const { return static_cast<size_t>(unpack.stored() * bytes_of(stored)); }
};

class Intake {
 public:
  // All buffers of this size together stay in the processor's last cache, so that the device fetches what was read from
  // there, and memory carries it once. A piece has no more.
  static constexpr size_t slot_bytes = size_t{8} << 20;
  static constexpr size_t read_bytes = size_t{16} << 20;  // a reader goes on for so long before it looks elsewhere

  struct Buffers {
    int readers = 1;            // threads, each of which fills a buffer
    size_t sent = 8;            // on their way to the device meanwhile
    size_t bytes = slot_bytes;  // of each
    size_t count() const { return static_cast<size_t>(readers) + sent; }
  };

  // What shares a buffer: at most so many pieces, one behind the other, each at the next multiple of `grain`.
  using Batch = std::span<const Piece>;
  static constexpr size_t most_pieces = 64, grain = 256;
  static size_t room(const Piece& piece) { return round_up(piece.bytes(), grain); }

  // What a device does. Called by the thread that runs the intake, except that readers write into buffers.
  class Port {
   public:
    virtual ~Port() = default;
    virtual std::byte* buffer(size_t slot) = 0;
    // What is sent from now on waits for the event, and for zeros in all of `clear`.
    virtual void begin(const Event& event, std::span<const Tensor> clear) = 0;
    virtual void send(size_t slot, Batch pieces) = 0;  // returns at once
    // Waits for the one that was sent first of those that nobody waited for. The first of its pieces that is not finite
    // and has somebody to tell; pieces.size(): none.
    virtual size_t arrived(size_t slot, Batch pieces) = 0;
    virtual void drain() = 0;  // waits for all, throws nothing
  };

  Intake(std::unique_ptr<Port> port, const Buffers& buffers) : port_(std::move(port)), buffers_(buffers) {}

  // All pieces, in any order, once `event` has come. When it returns they are in their places. The first piece of the
  // list that cannot be read or is not finite throws; a stop is seen between pieces.
  void run(const std::vector<Piece>& pieces, const Event& event, const std::stop_token& stop);

  // What the sender of the last run waited for, and how often.
  struct Spent {
    double reading = 0, arriving = 0;  // seconds: for pieces to be read, for what was sent to be in its place
    size_t pieces = 0, batches = 0;
  };
  const Spent& spent() const { return spent_; }

  size_t buffer_bytes() const { return buffers_.count() * buffers_.bytes; }  // of the host, as long as this lives

 private:
  class Reading;

  std::vector<Batch> batches_of(const std::vector<Piece>& pieces) const;
  void send_all(Reading& reading, const std::stop_token& stop);

  std::unique_ptr<Port> port_;
  Buffers buffers_;
  Spent spent_;
};

}  // namespace zoetrope
