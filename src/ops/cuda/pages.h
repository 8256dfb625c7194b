// Device pages: addresses reserved once, physical chunks mapped behind each other on demand. Growing takes well under a
// millisecond, waits for nothing and moves nothing; captured graphs stay valid (docs/decisions/0101).
#pragma once
#include <memory>

#include "core/pages.h"
#include "ops/cuda/driver.h"

namespace zoetrope::cuda {

std::unique_ptr<Pages> device_pages(const Driver& driver, int device, size_t reserve);

}  // namespace zoetrope::cuda
