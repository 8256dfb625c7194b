// What only the CPU back end promises: the same bits on any number of threads, and no slow primitive of the library.
#include "ops/cpu/backend.h"
#include "ops/ops.h"
#include "support/device_ctx.h"

namespace zoetrope {
namespace {

constexpr DType types[] = {DType::f32, DType::bf16};
const ConvOptions same{1, 1, 1, 1};

// Each op that works in parallel, on one input.
Tensor everything(DeviceCtx& dev, DType type, int which) {
  const Tensor x = dev.random({700, 192}, 1, type), w = dev.random({192, 192}, 2, type), g = dev.random({192}, 3);
  const Tensor image = dev.random({3, 16, 20, 48}, 4, type), kernel = dev.random({48, 3, 3, 3, 48}, 5, type);
  const Modulation m{dev.random({1, 192}, 6), dev.random({1, 192}, 7), {}};
  switch (which) {
    case 0:
      return linear(dev, x, w, g, {.act = Act::gelu_tanh});
    case 1:
      return attention(dev, as_heads(x, 64), as_heads(x, 64), as_heads(x, 64)).o;
    case 2:
      return attention(dev, as_heads(x, 64), as_heads(x, 64), as_heads(x, 64), {.causal = true}).lse;
    case 3:
      return conv(dev, image, kernel, {}, same, {});
    case 4:
      return rms_norm(dev, x, g, 1e-6f, type);
    case 5:
      return norm_modulate(dev, x, m, 1e-6f, type);
    case 6:
      return silu(dev, x);
    case 7:
      return value_range(dev, x);
    default:
      return {};
  }
}

TEST(Bits, AreTheSameOnOneTwoAndFourThreads) {
  DeviceCtx one(1), two(2), four(4);
  for (const DType type : types)
    for (int which = 0; which < 8; ++which) {
      SCOPED_TRACE(cat(type, " op ", which));
      const Tensor y = everything(one, type, which);
      expect_same_bits(y, everything(two, type, which));
      expect_same_bits(y, everything(four, type, which));
    }
}

TEST(Primitives, AreNeverReferenceImplementations) {
  DeviceCtx dev;
  for (const int64_t width : {1, 3, 16, 64, 96, 128, 200, 384, 1536}) {
    linear(dev, dev.random({20, width}, 1), dev.random({width, width}, 2), {});
    attention(dev, as_heads(dev.random({20, width}, 1), width), as_heads(dev.random({20, width}, 2), width),
              as_heads(dev.random({20, width}, 3), width));
  }
  const std::vector<std::string> used = cpu_implementations(*dev.backend);
  EXPECT_GT(used.size(), 10u);
  for (const std::string& one : used) EXPECT_EQ(one.find(": ref"), std::string::npos) << one;
}

}  // namespace
}  // namespace zoetrope
