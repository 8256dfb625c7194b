// A toy: a complete model folder in the diffusers layout with seeded random weights, small enough for a laptop. Its
// videos are noise; everything else about it is real, so that diffusers loads and runs the folder, too.
#pragma once
#include <cstdint>
#include <filesystem>
#include <stop_token>
#include <string>

namespace zoetrope {

inline constexpr const char* toy_kinds = "wan|wan-a14b";

// The folder appears under its name when it is complete, or not at all. Error(invalid): it exists already, or cannot be
// written; Error(unsupported): a kind that is not built yet; Error(cancelled): `stop` asked for an end.
void write_toy(const std::string& kind, const std::filesystem::path& folder, uint64_t seed,
               const std::stop_token& stop = {});

}  // namespace zoetrope
