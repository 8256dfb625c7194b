// The CUDA side of core/intake.h.
#pragma once
#include <memory>

#include "core/intake.h"

namespace zoetrope::cuda {

// For the current device, on streams of its own.
std::unique_ptr<Intake::Port> intake_port(const Intake::Buffers& buffers);

}  // namespace zoetrope::cuda
