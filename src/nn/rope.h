// Rotary tables of a three-axis token grid (Su et al., "RoFormer", arXiv:2104.09864): pair i of an axis that is `width`
// elements wide turns by position * theta^(-2i / width). Angles, cosines and sines are fp64, rounded once to fp32.
#pragma once
#include <array>

#include "nn/loader.h"
#include "ops/ops.h"

namespace zoetrope::nn {

std::vector<float> rope_table(int64_t extent, int64_t width, double theta);  // [extent, width / 2, 2]: cos, sin

// Tables for any grid of up to `extent` positions an axis; a grid's own are their first rows.
class RopeTables {
 public:
  void load(Loader& from, const std::array<int64_t, 3>& widths, int64_t extent, double theta = 10000);
  Rope grid(int64_t frames, int64_t rows, int64_t columns) const;  // Error(invalid) beyond `extent`

 private:
  std::array<Tensor, 3> axis_;
};

}  // namespace zoetrope::nn
