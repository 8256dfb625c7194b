// The name that suites use which need no GPU.
#pragma once
#include "ops/cpu/backend.h"
#include "support/device_ctx.h"

namespace zoetrope {

using CpuCtx = DeviceCtx;

}  // namespace zoetrope
