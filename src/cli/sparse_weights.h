// A component's checkpoint in the released layout, of its full size, that takes next to no room on disk: random numbers
// at the beginning and the end of each tensor, a hole between. For measuring how fast it is read.
#pragma once
#include <filesystem>
#include <stop_token>

#include "base/json.h"
#include "core/dtype.h"

namespace zoetrope::cli {

// Into an empty folder. Shards of at most 10 GB with their index, or one file. `type`: fp32, bf16 or fp16.
void write_sparse_weights(const Json& config, const std::filesystem::path& folder, DType type,
                          const std::stop_token& stop);

}  // namespace zoetrope::cli
