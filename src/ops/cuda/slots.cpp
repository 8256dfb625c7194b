#include "ops/cuda/slots.h"

#include "ops/cuda/check.h"

namespace zoetrope::cuda {

std::byte* Slots::of(const Ctx& c) {
  DeviceBuffer& buffer = buffers_[&c.stream()];
  if (!buffer) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes));
    buffer.reset(memory);
  }
  return static_cast<std::byte*>(buffer.get());
}

}  // namespace zoetrope::cuda
