#include "pipeline/guidance.h"

namespace zoetrope {

Guidance::Guidance(bool guided, const Mesh& mesh) : mesh_(mesh), streams_(guided ? 2 : 1) {
  const int halves = mesh.shape().cfg;
  for (int stream = 0; stream < streams_; ++stream)
    if (streams_ < halves || stream % halves == mesh.place().cfg) own_.push_back(stream);
}

Predictions Guidance::join(Ctx& c, const std::vector<Tensor>& own, const Tensor& scale) const {
  if (streams_ == 1) return {own[0], {}, {}};
  if (own.size() == 2) return {own[0], own[1], scale};
  const Tensor both = mesh_.cfg().all_gather(c, own[0]);  // [2T, H, W, C]
  const int64_t frames = own[0].dim(0);
  return {both.rows(0, frames), both.rows(frames, 2 * frames), scale};
}

}  // namespace zoetrope
