// What every replay of a recorded run of a model begins with: a rank, the recording, the weights it was made with.
#pragma once
#include "models/golden.h"
#include "nn/random.h"

namespace zoetrope {

struct Recorded {
  explicit Recorded(const std::string& name, bool fused = true) : cpu(2, fused), golden(name), weights(golden.seed()) {}

  CpuCtx cpu;
  Golden golden;
  nn::Random weights;
};

}  // namespace zoetrope
