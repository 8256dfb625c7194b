// Guidance as a list of streams, the predictions that a step joins: 0 with the prompt, 1 with the negative prompt.
//
// One half of the ranks makes them all. On two CFG halves each makes its own, and one collective a step brings both to
// all ranks. A single stream (no guidance) is made by both halves alike, without a collective.
#pragma once
#include <vector>

#include "mesh/mesh.h"
#include "ops/ops.h"

namespace zoetrope {

class Guidance {
 public:
  Guidance(bool guided, const Mesh& mesh);

  int streams() const { return streams_; }
  const std::vector<int>& own() const { return own_; }  // those that this rank makes

  // Predictions [T, H, W, C] of the own streams -> those that the solver needs, the same bits on every rank.
  Predictions join(Ctx& c, const std::vector<Tensor>& own, const Tensor& scale) const;

 private:
  const Mesh& mesh_;
  int streams_;
  std::vector<int> own_;
};

}  // namespace zoetrope
