// What the readers of a part's config.json ("vae", "transformer", ...) share.
#pragma once
#include "base/error.h"
#include "base/json.h"

namespace zoetrope {

// Reads counts and sizes: number("num_layers", config.layers, 1024). A key that is absent or null leaves the default;
// Error(invalid) names the part and the key of a value that is not in 1..most.
struct Numbers {
  const Json& json;
  const char* part;
  int64_t most = 1 << 20;

  void operator()(const char* key, int64_t& into) const { (*this)(key, into, most); }
  void operator()(const char* key, int64_t& into, int64_t most_of_this) const {
    into = value_or(json, key, into);
    require(into > 0 && into <= most_of_this, part, ": ", key, " is ", into, ", 1 to ", most_of_this, " makes sense");
  }
};

// The small number that keeps a norm from dividing by zero, by the same rules.
inline void read_epsilon(const Json& json, const char* part, const char* key, float& into) {
  into = value_or(json, key, into);
  require(into > 0 && into < 0.1f, part, ": ", key, " is ", into, ", above 0 and below 0.1 makes sense");
}

}  // namespace zoetrope
