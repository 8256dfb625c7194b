// Why a GPU cannot be used, in one line: judged from plain facts, so that each case can be tested on any machine.
#pragma once
#include <string>

namespace zoetrope::cuda {

struct DriverFacts {
  int serves = 0;  // CUDA that the driver serves, 13000 is 13.0; 0: there is no driver
  int needs = 0;   // CUDA that this build was made with
  bool too_old = false;
  int gpus = 0;
};
std::string objection(const DriverFacts& facts);  // "" where GPUs can be used

struct GpuFacts {
  int number = 0;
  int major = 0, minor = 0;  // compute capability
  bool has_code = true;      // this build has kernels for it
};
std::string objection(const GpuFacts& facts);  // for one that is there

std::string version_text(int version);  // "13.0"

}  // namespace zoetrope::cuda
