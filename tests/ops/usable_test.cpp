// Why a GPU cannot be used, by its words: what was found is made up here.
#include "ops/cuda/usable.h"

#include <gtest/gtest.h>

namespace zoetrope::cuda {
namespace {

TEST(Usable, SaysWhichDriverIsMissingOrOld) {
  EXPECT_EQ(objection(DriverFacts{.serves = 0, .needs = 13000, .too_old = false, .gpus = 0}),
            "device cuda: no NVIDIA driver on this machine; install one, or use --device cpu");
  EXPECT_EQ(
      objection(DriverFacts{.serves = 12040, .needs = 13000, .too_old = true, .gpus = 0}),
      "device cuda: the driver is old: it serves CUDA 12.4, this build needs 13.0; install a newer driver, or use "
      "--device cpu");
  EXPECT_EQ(objection(DriverFacts{.serves = 13000, .needs = 13000, .too_old = false, .gpus = 0}),
            "device cuda: the driver sees no GPU (is CUDA_VISIBLE_DEVICES set to none?); use --device cpu");
  EXPECT_EQ(objection(DriverFacts{.serves = 13000, .needs = 13000, .too_old = false, .gpus = 1}), "");
}

TEST(Usable, SaysWhichGpuIsTooOldOrHasNoCode) {
  EXPECT_EQ(objection(GpuFacts{.number = 1, .major = 7, .minor = 5, .has_code = false}),
            "device cuda: GPU 1 is too old: compute capability 7.5, 8.0 or newer is needed; use --device cpu");
  EXPECT_EQ(objection(GpuFacts{.number = 0, .major = 8, .minor = 6, .has_code = false}),
            "device cuda: this build has no code for GPU 0 (compute capability 8.6); configure with "
            "-DCMAKE_CUDA_ARCHITECTURES=86");
  EXPECT_EQ(objection(GpuFacts{.number = 0, .major = 9, .minor = 0, .has_code = true}), "");
}

}  // namespace
}  // namespace zoetrope::cuda
