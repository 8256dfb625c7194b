// Streams, pages, copies and errors of the CUDA back end.
#include <cuda_runtime.h>

#include "ops/cuda/backend.h"
#include "ops/ops.h"
#include "support/device_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

TEST(Runtime, UploadAndDownloadCarryEveryByteOfAnySize) {
  DeviceCtx dev;
  for (const int64_t n : {1, 3, 1000, 1 << 20, (1 << 20) + 1, 5'000'001}) {  // pieces are of 4 MiB
    const std::vector<float> values = random_values(n, 7);
    const Tensor x = dev.c.empty({n}, DType::f32, dev.c.request());
    dev.c.upload(std::span<const float>(values), x);
    EXPECT_EQ(dev.c.fetch<float>(x, 0.0f), values) << n;
  }
}

TEST(Runtime, UploadMayReuseItsSourceAtOnce) {
  DeviceCtx dev;
  const Tensor x = dev.c.empty({64, 4096}, DType::f32, dev.c.request());
  std::vector<float> row(4096);
  for (int64_t i = 0; i < 64; ++i) {
    std::ranges::fill(row, static_cast<float>(i));
    dev.c.upload(std::span<const float>(row), x.row(i));
  }
  const std::vector<float> all = values_of(x);
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<float>(i / 4096));
}

TEST(Runtime, RegionsGrowWithoutMovingAndGiveBack) {
  DeviceCtx dev;
  Region& scratch = dev.c.scratch();
  Scope scope(scratch);
  const Tensor first = dev.c.empty({1000}, DType::f32);
  fill(dev, first, 3);
  const size_t before = scratch.committed();
  {
    Scope inner(scratch);
    const Tensor big = dev.c.empty({300 << 20}, DType::f32);  // 1.2 GiB: several chunks
    fill(dev, big, 1);
    EXPECT_EQ(values_of(big.rows(big.size() - 5, big.size())), std::vector<float>(5, 1.0f));
    EXPECT_GT(scratch.committed(), before);
  }
  scratch.trim();
  EXPECT_LT(scratch.committed(), size_t{512} << 20);
  const Tensor again = dev.c.empty({100 << 20}, DType::f32);  // over addresses that were given back
  fill(dev, again, 2);
  EXPECT_EQ(values_of(again.rows(0, 3)), std::vector<float>(3, 2.0f));
  EXPECT_EQ(values_of(first), std::vector<float>(1000, 3.0f));
}

TEST(Runtime, MoreThanTheDeviceHoldsIsOneErrorAndWorkGoesOn) {
  DeviceCtx dev;
  Scope scope(dev.c.scratch());
  const size_t before = dev.c.scratch().committed();
  const std::string text = words([&] { dev.c.empty({int64_t{1} << 36}, DType::f32); });  // 256 GiB
  EXPECT_EQ(dev.c.scratch().committed(), before);
  EXPECT_NE(text.find("memory"), std::string::npos) << text;
  const Tensor x = dev.random({100}, 1);
  EXPECT_EQ(values_of(silu(dev, x)).size(), 100u);
}

TEST(Runtime, ForksRunBesideAndJoin) {
  DeviceCtx dev;
  const Tensor x = dev.random({2000, 512}, 1);
  std::vector<float> want = values_of(x);
  for (float& v : want) v += 40;
  const Tensor ones = dev.c.empty(x.shape(), DType::f32, dev.c.request());
  fill(dev, ones, 1);
  for (int i = 0; i < 20; ++i) {  // main and side take turns on the same numbers
    add(dev, x, ones);
    Fork side(dev.c);
    add(side, x, ones);
  }
  std::vector<float> got = values_of(x);
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::fabs(double{got[i]} - double{want[i]}));
  EXPECT_LE(worst, 40 * 4e-6);
}

TEST(Runtime, NamesTheDeviceAndRefusesOneThatIsNotThere) {
  const std::vector<CudaFacts> all = cuda_devices();
  ASSERT_FALSE(all.empty());
  for (const CudaFacts& f : all) {
    std::printf("device | %s | sm_%d | driver %s | runtime %s | cublas %s | cudnn %s | %zu MiB free of %zu\n",
                f.name.c_str(), f.capability, f.driver.c_str(), f.runtime.c_str(), f.cublas.c_str(), f.cudnn.c_str(),
                f.free >> 20, f.memory >> 20);
    EXPECT_GE(f.capability, 80);
  }
  const std::string none = cat("device cuda: there is no GPU 99; this process sees ", all.size());
  EXPECT_EQ(words([] { make_cuda_backend(99); }), none);
}

TEST(Runtime, ProfilingMeasuresTheDevice) {
  DeviceCtx dev;
  const Tensor x = dev.random({4096, 4096}, 1, DType::bf16), w = dev.random({4096, 4096}, 2, DType::bf16);
  linear(dev, x, w, {});
  dev.rank.profile = true;
  linear(dev, x, w, {});
  dev.rank.profile = false;
  const OpCount& count = dev.c.counts().at("linear");
  EXPECT_GT(count.seconds, 2.0 * 4096 * 4096 * 4096 / 1e15) << "faster than any GPU";
}

}  // namespace
}  // namespace zoetrope
