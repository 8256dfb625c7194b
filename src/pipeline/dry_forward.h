// One pass of the transformer on rank 0 of a mesh that need not exist: what it computes and what it sends.
#pragma once
#include "attn/strategy.h"
#include "config/request.h"
#include "models/source.h"
#include "pipeline/collectives.h"

namespace zoetrope {

struct DryForward {
  int64_t tokens = 0;  // of the video, all ranks together
  double flops = 0;    // of this rank
  Collectives collectives;
};

DryForward dry_forward(const ModelSource& source, const Request& request, const Traits& traits, DType dtype,
                       const MeshShape& shape = {}, const attn::Forms& forms = {});

}  // namespace zoetrope
