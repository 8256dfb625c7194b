// A rank on the CPU back end for tests: pool, rank and context in one, tensors from vectors, and comparisons.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "base/cat.h"
#include "core/ctx.h"
#include "ops/cpu/backend.h"

namespace zoetrope {

// Values in [-scale, scale), the same for the same seed on every machine.
inline std::vector<float> random_values(int64_t n, unsigned seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = (static_cast<float>(engine() >> 8) * 0x1p-23f - 1) * scale;
  return values;
}

// A context that works: `CpuCtx cpu; Ctx& c = cpu.c;`. fused = false makes the fronts take the plain forms.
struct CpuCtx {
  explicit CpuCtx(int threads = 2, bool fused = true) : pool(threads), c(prepare(fused)) {}
  operator Ctx&() { return c; }

  // Tensors live in the request region, so scopes of scratch do not end them.
  Tensor tensor(const Shape& shape, std::span<const float> values, DType type = DType::f32) {
    const Tensor x = c.empty(shape, type, c.request());
    EXPECT_EQ(x.size(), static_cast<int64_t>(values.size()));
    if (type == DType::f32) std::ranges::copy(values, x.data<float>());
    if (type == DType::bf16) std::ranges::transform(values, x.data<bf16>(), [](float v) { return bf16(v); });
    return x;
  }
  Tensor random(const Shape& shape, unsigned seed, DType type = DType::f32, float scale = 1) {
    return tensor(shape, random_values(shape.size(), seed, scale), type);
  }
  Tensor ints(std::span<const int32_t> values) {
    const Tensor x = c.empty({static_cast<int64_t>(values.size())}, DType::i32, c.request());
    std::ranges::copy(values, x.data<int32_t>());
    return x;
  }
  Tensor poisoned(const Shape& shape, DType type) {  // every element NaN
    const Tensor x = c.empty(shape, type, c.request());
    std::memset(x.raw(), 0xFF, static_cast<size_t>(x.bytes()));
    return x;
  }
  // Fills what scratch will hand out next with NaN, so that an op that leaves a hole in its result is caught.
  void poison_scratch(size_t bytes = 8u << 20) {
    Scope scope(c.scratch());
    std::memset(c.scratch().take(bytes), 0xFF, bytes);
  }

  Pool pool;
  std::unique_ptr<Backend> backend = make_cpu_backend();
  Rank rank;
  Ctx c;

 private:
  Rank& prepare(bool fused) {
    rank.traits = cpu_traits();
    rank.traits.fused_glue = fused;
    rank.backend = backend.get();
    rank.pool = &pool;
    return rank;
  }
};

// The elements of a tensor of any compute type (or int32, uint8) as fp32.
inline std::vector<float> values_of(const Tensor& x) {
  std::vector<float> values(static_cast<size_t>(x.size()));
  const auto read = [&]<class T>(T) {
    std::ranges::transform(x.span<T>(), values.begin(), [](T v) { return static_cast<float>(v); });
  };
  if (x.dtype() == DType::f32) read(float{});
  if (x.dtype() == DType::bf16) read(bf16{});
  if (x.dtype() == DType::i32) read(int32_t{});
  if (x.dtype() == DType::u8) read(uint8_t{});
  return values;
}

// max |got - want| <= bound * max |want|. Equal infinities agree; a NaN never does.
template <class Got, class Want>
void expect_near(const std::vector<Got>& got, const std::vector<Want>& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  double size = 0, worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double a = static_cast<double>(got[i]), b = static_cast<double>(want[i]);
    if (std::isfinite(b)) size = std::max(size, std::fabs(b));
    const double off = a == b ? 0 : std::fabs(a - b);
    if (!(off <= worst)) worst = off, at = i;
    if (off != off) break;
  }
  if (want.empty()) return;
  EXPECT_LE(worst, bound * size) << "element " << at << ": " << static_cast<double>(got[at]) << ", should be "
                                 << static_cast<double>(want[at]) << " (largest " << size << ")";
}
template <class Want>
void expect_near(const Tensor& got, const std::vector<Want>& want, double bound) {
  expect_near(values_of(got), want, bound);
}

// How far a result of this type may lie from its exact value, relative to the largest.
inline double rounding(DType type) { return type == DType::bf16 ? 0x1p-8 : 2e-6; }

inline void expect_same_bits(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.size(), b.size());
  const auto* left = static_cast<const std::byte*>(a.raw());
  const auto* right = static_cast<const std::byte*>(b.raw());
  int64_t differ = 0, first = -1;
  for (int64_t i = 0; i < a.bytes(); ++i)
    if (left[i] != right[i] && ++differ == 1) first = i / bytes_of(a.dtype());
  EXPECT_EQ(differ, 0) << "bytes differ, first in element " << first;
}

}  // namespace zoetrope
