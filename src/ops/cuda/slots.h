// Working memory of the ops: one buffer a stream, taken when a stream first needs it and never grown. Ops of a stream
// run one after the other, so all of them share it. Scratch would not do: side and main stream work at the same time.
#pragma once
#include <map>

#include "core/ctx.h"
#include "ops/cuda/handles.h"

namespace zoetrope::cuda {

class Slots {
 public:
  static constexpr size_t bytes = size_t{256} << 20;  // of it 64 MiB are the libraries' workspace

  std::byte* of(const Ctx& c);

 private:
  std::map<const Stream*, DeviceBuffer> buffers_;
};

}  // namespace zoetrope::cuda
