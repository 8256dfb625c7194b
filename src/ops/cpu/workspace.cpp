#include "ops/cpu/workspace.h"

#include <new>

namespace zoetrope {

// The smallest idle buffer that is large enough; else the largest one, replaced. So there are never more buffers than
// leases at a time, and a large one is not grown again for every small piece.
Workspaces::Buffer Workspaces::fetch(int64_t floats) {
  const size_t bytes = static_cast<size_t>(padded(floats)) * sizeof(float);
  Buffer buffer;
  {
    const std::lock_guard lock(mutex_);
    auto best = idle_.end();
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      const bool better = best == idle_.end() || (it->bytes >= bytes ? best->bytes < bytes || it->bytes < best->bytes
                                                                     : it->bytes > best->bytes && best->bytes < bytes);
      if (better) best = it;
    }
    if (best != idle_.end()) {
      buffer = std::move(*best);
      idle_.erase(best);
    }
  }
  if (buffer.bytes < bytes) {
    buffer.data.reset();
    buffer.data.reset(std::aligned_alloc(64, bytes));
    if (!buffer.data) throw std::bad_alloc();
    buffer.bytes = bytes;
  }
  return buffer;
}

void Workspaces::put_back(Buffer buffer) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(buffer));
}

}  // namespace zoetrope
