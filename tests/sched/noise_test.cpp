// Goldens: torch 2.11.0 (x86-64, AVX2 kernels; the AVX-512 dispatch gives the same words), recorded with
//   torch.randn(n, generator=torch.Generator().manual_seed(seed))     hash = FNV-1a 64 over the bytes
#include "sched/noise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace zoetrope {
namespace {

std::vector<float> noise(size_t n, uint64_t seed, std::string_view spec = "torch-cpu") {
  std::vector<float> out(n);
  fill_normal(out, seed, parse_noise(spec));
  return out;
}

uint32_t word(float x) { return std::bit_cast<uint32_t>(x); }

uint64_t fnv1a(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const float x : values)
    for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ (word(x) >> shift & 0xff)) * 0x100000001b3u;
  return hash;
}

struct Golden {
  uint64_t seed;
  size_t n;
  uint64_t hash;
  uint32_t first[2], last[2];
};

constexpr Golden goldens[] = {
    {0, 15, 0x52b8f3bcc098f4b9, {0x3fc53f5c, 0xbe963c50}, {0x3f8ce099, 0xbf891cab}},
    {0, 16, 0x28d49f8f92bf21d6, {0xbf901b85, 0xbf93808a}, {0x3f8ef28e, 0xbe7d367c}},
    {0, 17, 0x9151e09be6bcf07a, {0xbf901b85, 0xbfd91446}, {0xbf57fb33, 0x3f6e8c30}},
    {0, 33, 0xf2eb928ce9653fe6, {0xbf901b85, 0xbf93808a}, {0xbfcb189e, 0x3f9a033c}},
    {0, 4838400, 0x86155ee1b455fa59, {0xbf901b85, 0xbf93808a}, {0xbfb0d8b4, 0x3e8a3698}},
    {42, 2, 0x999ce133fe752ca1, {0x3eac62ae, 0x3e03e69d}, {0x3eac62ae, 0x3e03e69d}},
    {42, 15, 0x4c7fdcb26081ae6b, {0x3eac62ae, 0x3e03e69d}, {0xbfd84b55, 0xbf7d2c7a}},
    {42, 16, 0x080ffa5fbeb15154, {0x3ff6a529, 0x3fbe5f53}, {0xbf44d2a0, 0x3f432f9f}},
    {42, 17, 0x91ae8bd790a50356, {0x3ff6a529, 0xbe236d85}, {0x3f5c1fb0, 0xbe9e9482}},
    {42, 31, 0xbcc1254f5a30e3c3, {0x3ff6a529, 0x3fbe5f53}, {0x4007dbb6, 0xbf9e091d}},
    {42, 33, 0x00a911b61ea4ac05, {0x3ff6a529, 0x3fbe5f53}, {0xbef9cfd9, 0xbfb582fd}},
    {42, 470400, 0x3e8e58e2752f9308, {0x3ff6a529, 0x3fbe5f53}, {0x3f0fab04, 0xbf4ded52}},
    {42, 4838400, 0xace56ffefb5d5f0c, {0x3ff6a529, 0x3fbe5f53}, {0x3fa48fd2, 0x3f227d9a}},
    {4294967303, 17, 0xb8b2b898064e9a44, {0xbf51f456, 0xbea62d99}, {0xbfae0ce9, 0xbf5de028}},
};

TEST(TorchCpuNoise, MatchesTheRecordedBits) {
  for (const Golden& g : goldens) {
    const std::vector<float> got = noise(g.n, g.seed);
    SCOPED_TRACE("seed " + std::to_string(g.seed) + ", " + std::to_string(g.n) + " elements");
    EXPECT_EQ(fnv1a(got), g.hash);
    EXPECT_EQ(word(got[0]), g.first[0]);
    EXPECT_EQ(word(got[1]), g.first[1]);
    EXPECT_EQ(word(got[g.n - 2]), g.last[0]);
    EXPECT_EQ(word(got[g.n - 1]), g.last[1]);
  }
}

TEST(TorchCpuNoise, MatchesEveryWordAtSeventeen) {  // the block, and the tail that overwrites all but its first place
  constexpr uint32_t want[17] = {0xbf901b85, 0xbfd91446, 0x3f111004, 0x3f4b235d, 0x3f194d8b, 0xbfc70d5b,
                                 0xbeaec6ca, 0x3fed2f4e, 0x3eefaa55, 0xbf15e32b, 0xbe318eeb, 0x3e3be1a4,
                                 0x3fb1d6c0, 0x3fcb0d00, 0x3f72409c, 0xbf57fb33, 0x3f6e8c30};
  const std::vector<float> got = noise(17, 0);
  for (size_t i = 0; i < 17; ++i) EXPECT_EQ(word(got[i]), want[i]) << "at " << i;
}

TEST(TorchCpuNoise, UsesTheLow32BitsOfTheSeed) { EXPECT_EQ(noise(33, 7), noise(33, (uint64_t{1} << 32) + 7)); }

TEST(TorchCpuNoise, FillsNothingWhenAskedForNothing) {
  EXPECT_TRUE(noise(0, 1).empty());
  EXPECT_TRUE(noise(0, 1, "torch-cuda:132x8").empty());
}

// Printed by torch on a GPU for seed 0 (public logs, four decimals); one block suffices for 16 elements on any GPU.
TEST(TorchCudaNoise, MatchesPublishedValues) {
  constexpr float want[16] = {-0.9247f, -0.4253f, -2.6438f, 0.1452f, -0.1209f, -0.5797f, -0.6229f, -0.3284f,
                              -1.0745f, -0.3631f, -1.6711f, 2.2655f, 0.3117f,  -0.1842f, 1.2866f,  1.1820f};
  const std::vector<float> got = noise(16, 0, "torch-cuda:132x8");
  for (size_t i = 0; i < 16; ++i) EXPECT_NEAR(got[i], want[i], 6e-5f) << "at " << i;
}

// The known answer of Philox4x32-10 for counter 0, key 0 (Random123): thread 0's first draw. One block of 256 threads.
TEST(TorchCudaNoise, SpreadsOneDrawOverFourStrides) {
  constexpr double x[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
  const auto radius = [&](int i) { return std::sqrt(-2.0 * std::log((x[i] + 0.5) * 0x1p-32)); };
  const auto angle = [&](int i) { return 6.283185307179586 * (x[i] + 0.5) * 0x1p-32; };
  const std::vector<float> got = noise(1024, 0, "torch-cuda:1x1");
  EXPECT_NEAR(got[0], radius(0) * std::sin(angle(1)), 1e-6);
  EXPECT_NEAR(got[256], radius(0) * std::cos(angle(1)), 1e-6);
  EXPECT_NEAR(got[512], radius(2) * std::sin(angle(3)), 1e-6);
  EXPECT_NEAR(got[768], radius(2) * std::cos(angle(3)), 1e-6);
}

TEST(TorchCudaNoise, AWiderGridTakesOtherThreadsFirst) {
  const std::vector<float> one = noise(2048, 5, "torch-cuda:1x1"), two = noise(2048, 5, "torch-cuda:1x2");
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(one[i], two[i]);               // thread i, first word
    EXPECT_EQ(one[256 + i], two[512 + i]);   // second word: one stride further, and the stride has doubled
    EXPECT_EQ(one[768 + i], two[1536 + i]);  // fourth word
    EXPECT_NE(one[1024 + i], two[1024 + i]);
  }
}

TEST(TorchCudaNoise, ShrinksTheGridToTheElements) {  // 300 elements fill two blocks, on any GPU with two
  EXPECT_EQ(noise(300, 9, "torch-cuda:132x8"), noise(300, 9, "torch-cuda:1x2"));
}

TEST(TorchCudaNoise, UsesAll64BitsOfTheSeed) {
  EXPECT_NE(noise(16, 7, "torch-cuda:132x8"), noise(16, (uint64_t{1} << 32) + 7, "torch-cuda:132x8"));
}

TEST(TorchCudaNoise, LooksNormalAtFullSize) {
  const std::vector<float> got = noise(4838400, 42, "torch-cuda:132x8");
  double sum = 0, squares = 0;
  for (const float x : got) sum += x, squares += double{x} * x;
  EXPECT_NEAR(sum / static_cast<double>(got.size()), 0.0, 0.003);
  EXPECT_NEAR(squares / static_cast<double>(got.size()), 1.0, 0.004);
}

TEST(NoiseSpec, ReadsAndWritesItsForms) {
  EXPECT_EQ(parse_noise("torch-cpu"), NoiseSpec{});
  const NoiseSpec h200{NoiseKind::torch_cuda, 132, 8};
  EXPECT_EQ(parse_noise("torch-cuda:132x8"), h200);
  EXPECT_EQ(to_string(h200), "torch-cuda:132x8");
  EXPECT_EQ(to_string(parse_noise("torch-cpu")), "torch-cpu");
}

TEST(NoiseSpec, RefusesEverythingElse) {
  for (const char* text :
       {"", "torch", "torch-cpu ", "torch-cuda", "torch-cuda:", "torch-cuda:132", "torch-cuda:x8", "torch-cuda:132x",
        "torch-cuda:0x8", "torch-cuda:132x-8", "torch-cuda:132x8x1", "torch-cuda:99999999999x8", "TORCH-CPU"})
    EXPECT_THROW(parse_noise(text), Error) << text;
  try {
    parse_noise("numpy");
    FAIL() << "numpy was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid);
    EXPECT_STREQ(e.what(),
                 "noise: 'numpy' is not one of the forms torch-cpu, torch-cuda:132x8 (multiprocessors x blocks of 256 "
                 "threads on each; 132x8 is an H200)");
  }
}

TEST(NoiseSpec, RefusesACudaOrderWithoutAGrid) {
  std::vector<float> out(16);
  EXPECT_THROW(fill_normal(out, 0, {NoiseKind::torch_cuda, 0, 8}), Error);
}

}  // namespace
}  // namespace zoetrope
