#include "engine/tuning.h"

#include "base/file.h"
#include "config/resources.h"
#include "ops/cuda/backend.h"

namespace zoetrope {

TuningUsed use_tuning(Backend& backend, const std::filesystem::path& file) {
  constexpr size_t most_bytes = 4u << 20;
  if (backend.traits().device == DeviceKind::cpu) {
    require(file.empty(), "tuning: ", file.string(),
            ": a table is for a GPU; leave --tuning out, or use --device cuda");
    return {};
  }
  if (!file.empty()) return {use_cuda_tuning(backend, read_file(file, most_bytes), file.string()), file.string()};
  const std::string name = cat("tuning/", cuda_tuning_name(backend), ".json");
  for (const Resource& shipped : resources())
    if (shipped.name == name) return {use_cuda_tuning(backend, shipped.bytes, name), name};
  return {};
}

}  // namespace zoetrope
