// Bytes of a checkpoint to host elements. Sources may lie at any address.
#pragma once
#include <cstddef>

#include "core/dtype.h"

namespace zoetrope {

// Whether convert() can: equal types, or F64, F32, F16, BF16 to fp32 or bf16 (round to nearest even).
bool converts(DType from, DType to);
void convert(const std::byte* from, DType from_type, void* to, DType to_type, size_t count);

}  // namespace zoetrope
