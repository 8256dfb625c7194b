// The CUDA side of core/intake.h.
#pragma once
#include <memory>

#include "core/intake.h"

namespace zoetrope::cuda {

// For the current device, on a stream of its own.
std::unique_ptr<Intake::Port> intake_port();

}  // namespace zoetrope::cuda
