#include "plan/mesh_cost.h"

#include <utility>

#include "base/error.h"
#include "pipeline/dry_forward.h"

namespace zoetrope {
namespace {

constexpr int most_ranks = 4096;  // one after the other, 0.1 s each

int64_t peak(const Region& region) { return static_cast<int64_t>(region.peak()); }

RankCost run_dry(const ModelSource& source, const MeshCost& cost, const Traits& traits, int number) {
  DryRank dry(traits);
  Ctx& c = dry.c;
  DryVideo video = dry_video(dry, source, cost.request, cost.dtype, cost.vae_dtype, cost.layout, number);
  RankCost rank;
  for (const auto& [component, part] : source.parts)
    if (const int64_t bytes = peak(c.weights(component)); bytes > 0) rank.weights[component] = bytes;
  rank.request = peak(c.request()), rank.scratch = peak(c.scratch()), rank.exchange = peak(c.exchange());
  rank.flops = flops_of(dry.rank.counts);
  rank.forward = std::move(video.forward), rank.whole = std::move(video.whole);
  return rank;
}

}  // namespace

int64_t RankCost::total() const {
  int64_t sum = request + scratch + exchange;
  for (const auto& [component, bytes] : weights) sum += bytes;
  return sum;
}

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
