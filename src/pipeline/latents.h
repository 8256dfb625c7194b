// The latents a request starts from: noise in torch's order, or a file.
#pragma once
#include "config/request.h"
#include "core/ctx.h"

namespace zoetrope {

// What can be said of the file of latents without reading their values: there, and of this request's shape.
void check_latents(const Request& request, const ModelInfo& model);

// [T, H, W, C] fp32 in scratch. Noise is drawn in the Python pipelines' order [C, T, H, W] and then laid out as ours; a
// file holds one fp32 tensor, `latents`, of shape [T, H, W, C].
Tensor initial_latents(Ctx& c, const Request& request, const Shape& shape);

}  // namespace zoetrope
