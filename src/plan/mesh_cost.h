// What a request takes on every rank of a mesh that need not exist: the pipeline's own code in dry contexts, one rank
// after the other. Nothing is allocated, read or sent.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/request.h"
#include "models/source.h"
#include "pipeline/collectives.h"
#include "pipeline/layout.h"
#include "pipeline/memory.h"

namespace zoetrope {

struct RankCost {
  MemoryNeed memory;                    // at most, of what this rank holds
  double forward_flops = 0, flops = 0;  // of one prediction, of the whole request
  Collectives forward;                  // of one prediction, the exchange of guidance included
  Collectives whole;                    // of the request: text, all steps, VAE

  friend bool operator==(const RankCost&, const RankCost&) = default;
};

struct MeshCost {
  Layout layout;
  Request request;
  DType dtype, vae_dtype;
  int64_t tokens = 0;           // of the video
  std::vector<RankCost> ranks;  // by world rank
};

// Prompts are counted at their longest. Error(invalid) for a layout that the model does not allow.
MeshCost mesh_cost(const ModelSource& source, const Request& request, const Traits& traits, DType dtype,
                   DType vae_dtype, const Layout& layout);

// {mesh, world, size, num_frames, latent_frames, steps, dtype, vae_dtype, tokens, ranks: [{ranks: "1-7", memory
// {weights {component}, request, scratch, exchange, total}, forward_flops, total_flops, forward {axis: {verb: {count,
// bytes}}}, whole {the same}}]}: ranks that take the same stand together.
OrderedJson as_json(const MeshCost& cost);
std::string as_text(const MeshCost& cost);

}  // namespace zoetrope
