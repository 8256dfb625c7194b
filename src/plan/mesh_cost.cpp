#include "plan/mesh_cost.h"

#include <utility>

#include "base/error.h"
#include "pipeline/dry_forward.h"

namespace zoetrope {
namespace {

constexpr int most_ranks = 4096;  // one after the other, 0.1 s each

RankCost run_dry(const ModelSource& source, const MeshCost& cost, const Traits& traits, int number) {
  DryRank dry(traits);
  DryVideo video = dry_video(dry, source, cost.request, cost.dtype, cost.vae_dtype, cost.layout, number);
  RankCost rank;
  rank.memory = peaks_of(video.memory);
  rank.flops = flops_of(dry.rank.counts);
  rank.forward = std::move(video.forward), rank.whole = std::move(video.whole);
  return rank;
}

}  // namespace

MeshCost mesh_cost(const ModelSource& source, const Request& request, const Traits& traits, DType dtype,
                   DType vae_dtype, const Layout& layout) {
  const MeshShape& shape = layout.shape;
  check(shape, shape.world(), mesh_heads(source));
  require(shape.world() <= most_ranks, "cost: ", shape.world(), " ranks; at most ", most_ranks, " are looked at");
  MeshCost cost{layout, request, dtype, vae_dtype, 0, {}};
  for (int rank = 0; rank < shape.world(); ++rank) {
    const DryForward forward = dry_forward(source, request, traits, dtype, layout, rank);
    cost.tokens = forward.tokens;
    cost.ranks.push_back(run_dry(source, cost, traits, rank));
    cost.ranks.back().forward_flops = forward.flops;
  }
  return cost;
}

}  // namespace zoetrope
