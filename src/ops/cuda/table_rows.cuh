// Row rows[s] of a table [R, C] fp32 for token s, or its first row for all of them.
#pragma once
#include "ops/cuda/rows.cuh"

namespace zoetrope::cuda {

struct TableRows {
  const float* table;
  const int32_t* rows;

  TableRows(const Tensor& table_, const Tensor& rows_)
      : table(pointer<const float>(table_)), rows(pointer<const int32_t>(rows_)) {}

  __device__ void load(const Lane& lane, int64_t i, float* v) const {
    const float* row = table + (rows ? rows[lane.row] : 0) * lane.n;
    load8(row, i, lane.n, aligned(row), v);
  }
};

}  // namespace zoetrope::cuda
