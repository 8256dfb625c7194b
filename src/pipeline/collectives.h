// Collectives counted by axis and verb, for reports and comparisons.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "mesh/mesh.h"

namespace zoetrope {

using Collectives = std::map<std::string, std::map<Verb, Traffic>>;  // by axis

Collectives count(const std::vector<Record>& log);
OrderedJson as_json(const Collectives& collectives);  // {axis: {verb: {count, bytes}}}
Collectives collectives_of(const Mesh& mesh);         // what this rank has issued on it so far

// (after - before) / n; what is 0 is left out.
Collectives per(int64_t n, const Collectives& after, const Collectives& before);

}  // namespace zoetrope
