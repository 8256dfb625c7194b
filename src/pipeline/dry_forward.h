// Dry runs on a rank of a mesh that need not exist: one pass of the transformer, or a whole request.
#pragma once
#include "config/request.h"
#include "core/dry_rank.h"
#include "models/source.h"
#include "pipeline/collectives.h"
#include "pipeline/layout.h"
#include "pipeline/memory.h"

namespace zoetrope {

struct DryForward {
  int64_t tokens = 0;  // of the video, all ranks together
  double flops = 0;    // of this rank
};

// A whole request on such a rank, prompts at their longest: what `dry` then says of memory and work bounds every
// prompt.
struct DryVideo {
  Collectives forward, whole;  // of one prediction, with the exchange of guidance; of text, all steps and VAE
  std::vector<StageMemory> memory;
};

DryVideo dry_video(DryRank& dry, const ModelSource& source, const Request& request, DType dtype, DType vae_dtype,
                   const Layout& layout = {}, int rank = 0, Residency residency = Residency::all);

DryForward dry_forward(const ModelSource& source, const Request& request, const Traits& traits, DType dtype,
                       const Layout& layout = {}, int rank = 0);

}  // namespace zoetrope
