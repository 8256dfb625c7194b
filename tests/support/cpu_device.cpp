#include <cstring>

#include "ops/cpu/backend.h"
#include "support/device.h"

namespace zoetrope::device {

std::unique_ptr<Backend> make_backend() { return make_cpu_backend(); }
Traits traits() { return cpu_traits(); }

void prepare(Rank& rank, Backend& backend) {
  rank.traits = cpu_traits();
  rank.backend = &backend;
}

void read(const Tensor& from, void* to) { std::memcpy(to, from.raw(), static_cast<size_t>(from.bytes())); }
void write(const void* from, const Tensor& to) { std::memcpy(to.raw(), from, static_cast<size_t>(to.bytes())); }
void poison(void* at, size_t bytes) { std::memset(at, 0xFF, bytes); }

}  // namespace zoetrope::device
