#include "ops/cpu/workspace.h"

#include <new>

namespace zoetrope {

Workspaces::Lease Workspaces::take(int64_t floats) {
  const size_t bytes = static_cast<size_t>(padded(floats)) * sizeof(float);
  Buffer buffer;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      buffer = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (buffer.bytes < bytes) {  // too small: it is replaced, so there are never more buffers than concurrent pieces
    buffer.data.reset(std::aligned_alloc(64, bytes));
    if (!buffer.data) throw std::bad_alloc();
    buffer.bytes = bytes;
  }
  return {*this, std::move(buffer)};
}

void Workspaces::put_back(Buffer buffer) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(buffer));
}

}  // namespace zoetrope
