// Pinned buffers and two streams: one copies, so that the link never waits for a kernel, the other converts and looks.
// A piece that fills a buffer alone and has the weight's type already is copied straight into place and looked at
// there; all else is unpacked from a buffer of the device. A result that is not finite is told through pinned memory,
// one word a piece.
#include "ops/cuda/intake.h"

#include <algorithm>
#include <vector>

#include "ops/cuda/check.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/stream.h"

namespace zoetrope::cuda {
namespace {

class IntakePort final : public Intake::Port {
 public:
  explicit IntakePort(const Intake::Buffers& buffers) : bytes_(buffers.bytes), staging_(buffers.sent) {}
  ~IntakePort() override { drain(); }

  std::byte* buffer(size_t slot) override {
    if (slot >= slots_.size()) slots_.resize(slot + 1);
    Slot& one = slots_[slot];
    if (!one.pinned) {
      one.pinned.reset(pinned(bytes_ + Intake::most_pieces * sizeof(int)));
      one.copied = make_event(), one.placed = make_event();
    }
    return static_cast<std::byte*>(one.pinned.get());
  }

  void begin(const Event& event, std::span<const Tensor> clear) override {
    copies_.wait(event);
    for (const Tensor& x : clear) check(cudaMemsetAsync(x.raw(), 0, static_cast<size_t>(x.bytes()), native(copies_)));
  }

  void send(size_t slot, Intake::Batch pieces) override {
    const Slot& one = slots_[slot];
    std::fill_n(bad_of(one), pieces.size(), 0);
    if (pieces[0].to.defined()) {
      const bool in_place = pieces.size() == 1 && as_stored(pieces[0]);
      std::byte* to = in_place ? static_cast<std::byte*>(pieces[0].to.raw()) : staging();
      copy(one, to, in_place ? pieces[0].bytes() : all_rooms(pieces));
      in_place ? look_at(one, pieces[0]) : unpack_all(one, to, pieces);
    }
    check(cudaEventRecord(one.placed.get(), native(kernels_)));
  }

  size_t arrived(size_t slot, Intake::Batch pieces) override {
    const Slot& one = slots_[slot];
    check(cudaEventSynchronize(one.placed.get()));
    size_t i = 0;
    while (i < pieces.size() && !(pieces[i].not_finite && static_cast<volatile int*>(bad_of(one))[i] != 0)) ++i;
    return i;
  }

  void drain() override {
    forget(cudaStreamSynchronize(native(copies_)));
    forget(cudaStreamSynchronize(native(kernels_)));
  }

 private:
  struct Slot {
    PinnedBuffer pinned;  // what was read, then the words
    EventHandle copied, placed;
  };

  static void* pinned(size_t bytes) {
    void* at = nullptr;
    check(cudaMallocHost(&at, bytes));
    return at;
  }

  int* bad_of(const Slot& one) const {
    return reinterpret_cast<int*>(static_cast<std::byte*>(one.pinned.get()) + bytes_);
  }

  static bool as_stored(const Piece& piece) { return piece.stored == piece.to.dtype() && piece.unpack.contiguous(); }

  static size_t all_rooms(Intake::Batch pieces) {
    size_t bytes = 0;
    for (const Piece& piece : pieces) bytes += Intake::room(piece);
    return bytes;
  }

  // Kernels wait for all copies up to this one.
  void copy(const Slot& one, void* to, size_t bytes) {
    check(cudaMemcpyAsync(to, one.pinned.get(), bytes, cudaMemcpyHostToDevice, native(copies_)));
    check(cudaEventRecord(one.copied.get(), native(copies_)));
    check(cudaStreamWaitEvent(native(kernels_), one.copied.get(), 0));
  }

  void look_at(const Slot& one, const Piece& piece) {
    if (piece.not_finite) look(native(kernels_), piece.to, bad_of(one));
  }

  void unpack_all(const Slot& one, const std::byte* from, Intake::Batch pieces) {
    for (size_t i = 0; i < pieces.size(); from += Intake::room(pieces[i++]))
      unpack(native(kernels_), from, pieces[i].stored, pieces[i].unpack, pieces[i].to, bad_of(one) + i);
  }

  // As many as there are batches on their way, in turns: who had this one last is in its place.
  std::byte* staging() {
    DeviceBuffer& one = staging_[turn_++ % staging_.size()];
    if (!one) {
      void* at = nullptr;
      check(cudaMalloc(&at, bytes_));
      one.reset(at);
    }
    return static_cast<std::byte*>(one.get());
  }

  size_t bytes_;
  std::vector<Slot> slots_;
  std::vector<DeviceBuffer> staging_;
  size_t turn_ = 0;
  CudaStream copies_, kernels_;
};

}  // namespace

std::unique_ptr<Intake::Port> intake_port(const Intake::Buffers& buffers) {
  return std::make_unique<IntakePort>(buffers);
}

}  // namespace zoetrope::cuda
