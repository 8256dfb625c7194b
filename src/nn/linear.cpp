#include "nn/linear.h"

namespace zoetrope::nn {

void load(Loader& from, Linear& into, const std::string& prefix, int64_t out, int64_t in, Bias bias) {
  from.tensor(into.w, prefix + ".weight", {out, in});
  if (bias == Bias::yes) from.tensor(into.b, prefix + ".bias", {out});
}

void load_stacked(Loader& from, Linear& into, const std::vector<std::string>& prefixes, int64_t out_each, int64_t in,
                  Bias bias) {
  std::vector<Entry> weights, biases;
  for (const std::string& prefix : prefixes) {
    weights.push_back({prefix + ".weight", {out_each, in}});
    biases.push_back({prefix + ".bias", {out_each}});
  }
  from.stacked(into.w, weights);
  if (bias == Bias::yes) from.stacked(into.b, biases);
}

}  // namespace zoetrope::nn
