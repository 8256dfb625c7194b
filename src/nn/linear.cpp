#include "nn/linear.h"

namespace zoetrope::nn {

void load(Loader& from, Linear& into, const std::string& prefix, int64_t out, int64_t in, Bias bias,
          const Slice& part) {
  if (part.axis == 0) return load_stacked(from, into, {prefix}, out, in, bias, part);
  from.part(into.w, prefix + ".weight", {out, in}, part);
  if (bias == Bias::no) return;
  if (part == Slice{})
    from.tensor(into.b, prefix + ".bias", {out});
  else if (part.from == 0)
    from.part(into.b, prefix + ".bias", {out}, {0, 0, out});
  else
    from.expect(prefix + ".bias", {out});
}

void load_stacked(Loader& from, Linear& into, const std::vector<std::string>& prefixes, int64_t out_each, int64_t in,
                  Bias bias, const Slice& part) {
  std::vector<Entry> weights, biases;
  for (const std::string& prefix : prefixes) {
    weights.push_back({prefix + ".weight", {out_each, in}});
    biases.push_back({prefix + ".bias", {out_each}});
  }
  from.stacked(into.w, weights, part);
  if (bias == Bias::yes) from.stacked(into.b, biases, part);
}

}  // namespace zoetrope::nn
