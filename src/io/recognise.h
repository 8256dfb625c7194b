// Files that stand where a safetensors file should be, known by their first bytes.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace zoetrope {

// What the file is and what would help, as the rest of a message; empty if it is none of the known kinds.
std::string foreign_file(std::span<const std::byte> prefix);

}  // namespace zoetrope
