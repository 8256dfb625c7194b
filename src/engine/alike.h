// Ranks that were started apart may have been told different things. They compare before any data moves.
#pragma once
#include <string>
#include <vector>

namespace zoetrope {

// facts: a JSON object of each rank, as text; "" is a rank that has nothing to say. All ranks pass the same.
// AgreedError names the first that differs from rank 0's: "rank 1 was given width 64 but rank 0 128". Who has no
// "prompt" takes rank 0's.
void require_alike(const std::vector<std::string>& facts);

}  // namespace zoetrope
