#include "ops/cuda/usable.h"

#include "base/cat.h"

namespace zoetrope::cuda {

std::string version_text(int version) { return cat(version / 1000, '.', version % 1000 / 10); }

std::string objection(const DriverFacts& facts) {
  if (facts.serves == 0) return "device cuda: no NVIDIA driver on this machine; install one, or use --device cpu";
  if (facts.too_old)
    return cat("device cuda: the driver is old: it serves CUDA ", version_text(facts.serves), ", this build needs ",
               version_text(facts.needs), "; install a newer driver, or use --device cpu");
  if (facts.gpus == 0)
    return "device cuda: the driver sees no GPU (is CUDA_VISIBLE_DEVICES set to none?); use --device cpu";
  return "";
}

std::string objection(const GpuFacts& facts) {
  if (facts.major < 8)
    return cat("device cuda: GPU ", facts.number, " is too old: compute capability ", facts.major, '.', facts.minor,
               ", 8.0 or newer is needed; use --device cpu");
  if (!facts.has_code)
    return cat("device cuda: this build has no code for GPU ", facts.number, " (compute capability ", facts.major, '.',
               facts.minor, "); configure with -DCMAKE_CUDA_ARCHITECTURES=", facts.major, facts.minor);
  return "";
}

}  // namespace zoetrope::cuda
