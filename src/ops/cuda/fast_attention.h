// What every fast attention asks of a call besides the heads' width: bf16 heads in 16-byte pieces, no bias, no mask.
#pragma once
#include "ops/ops.h"

namespace zoetrope::cuda {

inline bool is_plain_bf16(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options) {
  const auto reachable = [](const Heads& x) {
    return reinterpret_cast<uintptr_t>(x.buf.data<bf16>() + x.at) % 16 == 0 && x.row % 8 == 0;
  };
  return q.dtype() == DType::bf16 && !options.causal && !options.relative_bias.defined() && reachable(q) &&
         reachable(k) && reachable(v);
}

}  // namespace zoetrope::cuda
