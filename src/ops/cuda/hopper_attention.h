// Attention of bf16 heads of 128 on Hopper: docs/decisions/0111. Kept apart from kernels.h, since it needs the driver's
// header.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include "core/heads.h"

namespace zoetrope::cuda {

inline constexpr int hopper_queries = 128, hopper_keys = 192;  // of a tile

struct HopperOperands {
  // [tokens, heads, 128] in boxes of a tile's rows, 1 head, 64 columns; of k and v the real keys alone.
  CUtensorMap q, k, v;
  int queries = 0, keys = 0, heads = 0, key_heads = 0;
};

bool has_hopper_code();  // whether this program was built for 9.0a

// o [S, N, 128] bf16; lse [N, S]. At least one key; scale > 0.
void hopper_attention(cudaStream_t s, const HopperOperands& x, int multiprocessors, float scale, const Tensor& o,
                      const Tensor& lse);

}  // namespace zoetrope::cuda
