// Which of the plans that a library offers for a convolution may be taken, and which are tried first. Their names are
// cuDNN's: an engine and its knobs, "eng41_k2=0_k13=1_k18=0_k25=1_k27=8_k28=1". Text alone, the same in a build without
// CUDA.
//
// A pixel's bits must not depend on the size of the picture, so the sum has to run in one piece and in one order
// (docs/decisions/0106, 0109). Plans of one tile (knob 13, TILEK) give one set of bits among those with
//   knob 25 (WORKSPACE) = 1, or no room for partial sums where it is 0: a row of a table may name such a plan; and
//   knob 23 (SPECFILT) = 0,
// each where an engine has the knob. Engines 0 and 28 take seconds. No other plan will do: eng2, eng4 and eng7 gave a
// picture's part other bits.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "ops/cuda/tuning.h"

namespace zoetrope::cuda {

class PlanChoice {
 public:
  // `table` may be null. Rows that name a plan of another tile than the convolution has without a table are not
  // followed.
  PlanChoice(const ConvolutionPlan& convolution, const TuningTable* table);

  // The tiles in whose bits it may be computed; the first of which a plan is to be had counts.
  const std::vector<std::string>& tiles() const { return tiles_; }
  // Indices of `offered` in the order in which they are tried: what the rows name, nearest picture first, then the rest
  // in the library's order.
  std::vector<size_t> order(const std::vector<std::string>& offered, const std::string& tile) const;
  // All whose bits are those of the tile, in the library's order: what `zoetrope tune` measures.
  static std::vector<size_t> competitors(const std::vector<std::string>& offered, const std::string& tile);
  // Bytes that a plan may take for these bits, for this very shape.
  static int64_t most_workspace(const std::string& name, int64_t workspace);

  // The row of the table that should have been followed; null: there is none, or `name` is what it says.
  const ConvolutionPlan* missed(const std::string& name) const;

 private:
  std::vector<const ConvolutionPlan*> rows_;
  std::vector<std::string> tiles_;
  const ConvolutionPlan* first_ = nullptr;
};

}  // namespace zoetrope::cuda
