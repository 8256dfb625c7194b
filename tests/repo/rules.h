// The rules of docs/architecture.md: which layer may include which, and who may include which library. Both tables are
// read from that page, so the page cannot be wrong. A complaint is one line: file, line, what, and what is allowed.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "repo/tree.h"

namespace zoetrope::repo {

struct Rules {
  // Layer (a folder under src/, or tools/x) -> layers it may include besides itself and base. {"*"}: all.
  std::map<std::string, std::set<std::string>> layers;
  // Header prefix, as in <prefix...> -> layers that may include it; a layer counts for its sub-layers.
  std::map<std::string, std::set<std::string>> libraries;
};

// Reads the fenced blocks ```layers and ```libraries. Throws std::runtime_error when one is missing or malformed.
Rules read_rules(std::string_view page);

using Complaints = std::vector<std::string>;

// Files of src/ and tools/: each include must be allowed by its table; a library that no row names is a complaint.
Complaints check_includes(const Rules& rules, const std::vector<File>& files);

// Words that code below a place may not use: getenv (but cli), thread_local, #pragma omp.
Complaints check_words(const std::vector<File>& files);

// Paths of somebody's machine, and hosts of package registries.
Complaints check_places(const std::vector<File>& files);

}  // namespace zoetrope::repo
