// Row rows[s] of a table [R, C] fp32 for token s, or its first row for all of them; nothing where there is no table.
#pragma once
#include "ops/cuda/rows.cuh"

namespace zoetrope::cuda {

struct TableRows {
  const float* table;
  const int32_t* rows;
  const float* row = nullptr;  // the thread's token's, once it is found

  TableRows(const Tensor& table_, const Tensor& rows_)
      : table(pointer<const float>(table_)), rows(pointer<const int32_t>(rows_)) {}

  bool whole() const { return aligned(table); }
  // Once a thread, before the first load. The choice is one of 32-bit numbers: of offsets or pointers of 64 bits chosen
  // in front of each load ptxas 13.0 makes code that reads too early (decisions/0113).
  template <class L>
  __device__ void find(const L& lane) {
    const int32_t r = rows && lane.live ? rows[lane.row] : 0;
    row = table + static_cast<int64_t>(r) * lane.n;
  }
  template <class L>
  __device__ void load(const L& lane, int i, float* v) const {
    lane.load(row, i, v);
  }
};

}  // namespace zoetrope::cuda
