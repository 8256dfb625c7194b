// y = a w^T as fixed tiles, for linear and conv: rows in groups, K in blocks, columns in panels of 64. All bounds that
// bear on a result follow from (N, K); the cut over threads only decides who computes which tile.
#pragma once
#include <functional>

#include "core/pool.h"
#include "core/tensor.h"
#include "ops/cpu/tiles.h"
#include "ops/cpu/workspace.h"

namespace zoetrope {

constexpr int64_t panel_columns = 64;

// Writes rows [row, row + count) and columns [k0, k1) of the left operand as fp32, row i at to + i * stride.
using LoadRows = std::function<void(int64_t row, int64_t count, int64_t k0, int64_t k1, float* to, int64_t stride)>;
// Takes finished sums: rows [row, row + count), columns [n0, n0 + width), row i at sums + i * stride.
using StoreRows =
    std::function<void(int64_t row, int64_t count, int64_t n0, int64_t width, const float* sums, int64_t stride)>;

// w: [N, K] of any compute type. `load` and `store` are called by pool threads.
void product(const Workers& pool, Tiles& tiles, Workspaces& workspaces, int64_t rows, const Tensor& w,
             const LoadRows& load, const StoreRows& store);

}  // namespace zoetrope
