// Pinned buffers, a side stream, one buffer on the device. What has the weight's type already is copied straight into
// place and looked at there; all else is converted on its way. A result that is not finite is told through pinned
// memory, one word a buffer.
#include "ops/cuda/intake.h"

#include <vector>

#include "ops/cuda/check.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/stream.h"

namespace zoetrope::cuda {
namespace {

class IntakePort final : public Intake::Port {
 public:
  ~IntakePort() override { drain(); }

  std::byte* buffer(size_t slot) override {
    if (slot >= slots_.size()) slots_.resize(slot + 1);
    Slot& one = slots_[slot];
    if (!one.pinned) {
      one.pinned.reset(pinned(Intake::slot_bytes + sizeof(int)));
      cudaEvent_t event = nullptr;
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      one.sent.reset(event);
    }
    return static_cast<std::byte*>(one.pinned.get());
  }

  void after(const Event& event) override { stream_.wait(event); }

  void send(size_t slot, const Piece& piece) override {
    const cudaStream_t s = native(stream_);
    const Slot& one = slots_[slot];
    int* bad = bad_of(one);
    *bad = 0;
    if (piece.to.defined()) fetch(s, one, piece, bad);
    check(cudaEventRecord(one.sent.get(), s));
  }

  bool arrived(size_t slot, bool look_at_it) override {
    const Slot& one = slots_[slot];
    check(cudaEventSynchronize(one.sent.get()));
    return !look_at_it || *static_cast<volatile int*>(bad_of(one)) == 0;
  }

  void drain() override { forget(cudaStreamSynchronize(native(stream_))); }

 private:
  struct Slot {
    PinnedBuffer pinned;  // Intake::slot_bytes, then the word
    EventHandle sent;
  };

  void fetch(cudaStream_t s, const Slot& one, const Piece& piece, int* bad) {
    if (piece.clear.defined())
      check(cudaMemsetAsync(piece.clear.raw(), 0, static_cast<size_t>(piece.clear.bytes()), s));
    const bool as_stored = piece.stored == piece.to.dtype() && piece.unpack.contiguous();
    void* to = as_stored ? piece.to.raw() : staging();
    check(cudaMemcpyAsync(to, one.pinned.get(), piece.bytes(), cudaMemcpyHostToDevice, s));
    if (!as_stored)
      unpack(s, to, piece.stored, piece.unpack, piece.to, bad);
    else if (piece.not_finite)
      look(s, piece.to, bad);
  }

  static void* pinned(size_t bytes) {
    void* at = nullptr;
    check(cudaMallocHost(&at, bytes));
    return at;
  }

  static int* bad_of(const Slot& one) {
    return reinterpret_cast<int*>(static_cast<std::byte*>(one.pinned.get()) + Intake::slot_bytes);
  }

  void* staging() {
    if (!staging_) {
      void* at = nullptr;
      check(cudaMalloc(&at, Intake::slot_bytes));
      staging_.reset(at);
    }
    return staging_.get();
  }

  std::vector<Slot> slots_;
  DeviceBuffer staging_;
  CudaStream stream_;
};

}  // namespace

std::unique_ptr<Intake::Port> intake_port() { return std::make_unique<IntakePort>(); }

}  // namespace zoetrope::cuda
