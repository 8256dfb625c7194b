// Code that is made for each compute type, chosen at run time.
#pragma once
#include "core/dtype.h"

namespace zoetrope {

// Calls f(float{}) or f(bf16{}), by type.
template <class F>
void with_type(DType type, F f) {
  if (type == DType::bf16)
    f(bf16{});
  else
    f(float{});
}

}  // namespace zoetrope
