#include "ops/cuda/stream.h"

#include <algorithm>
#include <cstring>

#include "ops/cuda/check.h"

namespace zoetrope::cuda {
CudaStream::CudaStream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_.reset(stream);
  for (EventHandle& event : events_) event = make_event();
  for (EventHandle& event : moved_) event = make_event();
}

CudaStream::~CudaStream() { forget(cudaStreamSynchronize(stream_.get())); }

Event CudaStream::record() {
  ++recorded_;
  check(cudaEventRecord(event(recorded_), stream_.get()));
  return {this, recorded_};
}

void CudaStream::wait(const Event& e) {
  if (!e.stream || e.stream == this) return;
  const auto* other = dynamic_cast<const CudaStream*>(e.stream);
  if (other)
    check(cudaStreamWaitEvent(stream_.get(), other->event(e.number), 0));
  else
    e.stream->block_until(e.number);
}

void CudaStream::sync() { check(cudaStreamSynchronize(stream_.get())); }

void CudaStream::copy(const void* from, void* to, size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_.get()));
}

void CudaStream::block_until(uint64_t number) { check(cudaEventSynchronize(event(number))); }

std::byte* CudaStream::staging(size_t half) {
  if (!staging_) {
    void* buffer = nullptr;
    check(cudaMallocHost(&buffer, 2 * piece));
    staging_.reset(buffer);
  }
  return static_cast<std::byte*>(staging_.get()) + half * piece;
}

void CudaStream::upload(const void* from, void* to, size_t bytes) {
  for (size_t at = 0, half = 0; at < bytes; at += piece, half ^= 1) {
    const size_t count = std::min(piece, bytes - at);
    check(cudaEventSynchronize(moved_[half].get()));  // the copy that last used this half is done
    std::memcpy(staging(half), static_cast<const std::byte*>(from) + at, count);
    check(
        cudaMemcpyAsync(static_cast<std::byte*>(to) + at, staging(half), count, cudaMemcpyHostToDevice, stream_.get()));
    check(cudaEventRecord(moved_[half].get(), stream_.get()));
  }
}

void CudaStream::download(const void* from, void* to, size_t bytes) {
  const auto fetch = [&](size_t at, size_t half) {
    if (at >= bytes) return;
    check(cudaMemcpyAsync(staging(half), static_cast<const std::byte*>(from) + at, std::min(piece, bytes - at),
                          cudaMemcpyDeviceToHost, stream_.get()));
    check(cudaEventRecord(moved_[half].get(), stream_.get()));
  };
  fetch(0, 0);
  for (size_t at = 0, half = 0; at < bytes; at += piece, half ^= 1) {
    fetch(at + piece, half ^ 1);
    check(cudaEventSynchronize(moved_[half].get()));
    std::memcpy(static_cast<std::byte*>(to) + at, staging(half), std::min(piece, bytes - at));
  }
}

}  // namespace zoetrope::cuda
