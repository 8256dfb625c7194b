// A CUDA stream behind core's interface. Work is launched where it is submitted, so it counts as immediate; events come
// from a ring: an old number may stand for a later event, which only waits longer.
#pragma once
#include <array>

#include "core/stream.h"
#include "ops/cuda/handles.h"

namespace zoetrope::cuda {

class CudaStream final : public Stream {
 public:
  CudaStream();
  ~CudaStream() override;

  bool immediate() const override { return true; }
  void submit(Job job) override { job(); }
  Event record() override;
  void wait(const Event& e) override;
  void sync() override;
  void block_until(uint64_t number) override;
  void* native() const override { return stream_.get(); }
  // Through pinned memory, in pieces: the host copies one while the device fetches the other.
  void upload(const void* from, void* to, size_t bytes) override;
  void download(const void* from, void* to, size_t bytes) override;
  void copy(const void* from, void* to, size_t bytes) override;

 private:
  static constexpr size_t ring = 64, piece = size_t{4} << 20;

  cudaEvent_t event(uint64_t number) const { return events_[number % ring].get(); }
  std::byte* staging(size_t half);

  StreamHandle stream_;
  std::array<EventHandle, ring> events_;
  uint64_t recorded_ = 0;
  PinnedBuffer staging_;  // two pieces
  std::array<EventHandle, 2> moved_;
};

inline cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

}  // namespace zoetrope::cuda
