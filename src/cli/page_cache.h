// The system's cache of a file's bytes, for benchmarks that read it cold and warm.
#pragma once
#include <filesystem>
#include <optional>

namespace zoetrope::cli {

// Asks the system to forget what it holds of the file, which it does for pages that nobody else has mapped.
void drop_cached(const std::filesystem::path& file);
// The share of the file that lies in memory, 0 to 1; nothing where the system does not say.
std::optional<double> cached_share(const std::filesystem::path& file);

}  // namespace zoetrope::cli
