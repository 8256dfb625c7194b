#include "ops/cpu/backend.h"

#include "ops/cpu/cpu_backend.h"

namespace zoetrope {

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

// Workspaces are the back end's own (a few MiB a thread, see workspace.h) and stay out of the regions.
Traits cpu_traits() { return {.device = DeviceKind::cpu, .arch = "x86-64", .fused_glue = true}; }

Traits CpuBackend::traits() const { return cpu_traits(); }

std::shared_ptr<std::byte> CpuBackend::host_memory(size_t bytes) {
  return {new std::byte[bytes], std::default_delete<std::byte[]>()};
}

std::vector<std::string> cpu_implementations(const Backend& backend) {
  return dynamic_cast<const CpuBackend&>(backend).tiles().implementations();
}

}  // namespace zoetrope
