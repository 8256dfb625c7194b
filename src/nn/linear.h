// A matrix with its bias, and the two-layer form that diffusion transformers use throughout.
#pragma once
#include "nn/loader.h"
#include "ops/ops.h"

namespace zoetrope::nn {

struct Linear {
  Tensor w, b;  // [O, I], [O] or undefined

  // x[S, I] -> act(x w^T + b) [S, O]
  Tensor operator()(Ctx& c, const Tensor& x, LinearOptions options = {}) const { return linear(c, x, w, b, options); }
  void into(Ctx& c, const Tensor& x, const Tensor& y) const { linear_into(c, x, w, b, Act::none, y); }
};

enum class Bias : bool { no, yes };

// `prefix`.weight [out, in] and, if asked, `prefix`.bias [out]; or a rank's part: some outputs (axis 0) with their
// biases, or some inputs (axis 1), where the rank with the first ones has the bias, because the products are summed.
void load(Loader& from, Linear& into, const std::string& prefix, int64_t out, int64_t in, Bias bias = Bias::yes,
          const Slice& part = {});
// Several of one input width, stacked by rows: one product makes all their outputs, a slice of rows makes one. `part`:
// these outputs of each.
void load_stacked(Loader& from, Linear& into, const std::vector<std::string>& prefixes, int64_t out_each, int64_t in,
                  Bias bias = Bias::yes, const Slice& part = {});

// x -> down(act(up(x)))
struct Mlp {
  Linear up, down;
  Act act = Act::gelu_tanh;

  Tensor operator()(Ctx& c, const Tensor& x) const { return down(c, up(c, x, {.act = act})); }
};

}  // namespace zoetrope::nn
