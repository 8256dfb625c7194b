// One pass of the transformer on a rank of a mesh that need not exist: how much it computes.
#pragma once
#include "config/request.h"
#include "core/ctx.h"
#include "models/source.h"
#include "pipeline/layout.h"

namespace zoetrope {

struct DryForward {
  int64_t tokens = 0;  // of the video, all ranks together
  double flops = 0;    // of this rank
};

DryForward dry_forward(const ModelSource& source, const Request& request, const Traits& traits, DType dtype,
                       const Layout& layout = {}, int rank = 0);

}  // namespace zoetrope
