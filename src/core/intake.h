// Brings stored numbers into a device's memory: several threads read pieces of files into a few fixed buffers of host
// memory, and each is copied, converted and put in its place behind the other, in order, while the next are read.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

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
  Tensor clear;                      // becomes zeros before

  size_t bytes() const { return static_cast<size_t>(unpack.stored() * bytes_of(stored)); }
};

class Intake {
 public:
  static constexpr size_t slot_bytes = size_t{16} << 20;  // a piece has no more

  // What a device does. Called by the thread that runs the intake, except that readers write into buffers.
  class Port {
   public:
    virtual ~Port() = default;
    virtual std::byte* buffer(size_t slot) = 0;
    virtual void after(const Event& event) = 0;              // what is sent from now on waits for it
    virtual void send(size_t slot, const Piece& piece) = 0;  // behind all that was sent; returns at once
    virtual bool arrived(size_t slot, bool look_at_it) = 0;  // waits for it; false: its numbers are not all finite
    virtual void drain() = 0;                                // waits for all, throws nothing
  };

  // 1 reader or more; as many slots and `spare` more.
  Intake(std::unique_ptr<Port> port, int readers) : port_(std::move(port)), readers_(readers) {}

  // All pieces, once `event` has come. When it returns they are in their places. The first piece in order that cannot
  // be read or is not finite throws; a stop is seen between pieces.
  void run(const std::vector<Piece>& pieces, const Event& event, const std::stop_token& stop);

  // What the sender of the last run waited for, and how often.
  struct Spent {
    double reading = 0, arriving = 0;  // seconds: for pieces to be read, for what was sent to be in its place
    size_t pieces = 0;
  };
  const Spent& spent() const { return spent_; }

  size_t buffer_bytes() const { return slots() * slot_bytes; }  // host memory, held as long as this lives

 private:
  static constexpr size_t spare = 4;  // on their way to the device while all readers read
  struct Reading;

  size_t slots() const { return static_cast<size_t>(readers_) + spare; }
  void send_all(Reading& reading, const std::stop_token& stop);

  std::unique_ptr<Port> port_;
  int readers_;
  Spent spent_;
};

}  // namespace zoetrope
