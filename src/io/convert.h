// Bytes of a checkpoint to host elements. Sources may lie at any address.
#pragma once
#include <cstddef>

#include "core/dtype.h"

namespace zoetrope {

// Whether convert() can: equal types, or F64, F32, F16, BF16 to fp32 or bf16 (round to nearest even).
bool converts(DType from, DType to);
void convert(const std::byte* from, DType from_type, void* to, DType to_type, size_t count);
// Whether fp32 or bf16 elements are all finite; elements of another type are.
bool all_finite(const void* values, DType type, size_t count);

}  // namespace zoetrope
