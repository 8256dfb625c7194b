// A rank for tests, on the device that is linked (device.h): pool, rank and context in one, tensors from vectors,
// values back on the host, and comparisons.
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
#include "support/device.h"

namespace zoetrope {

// Values in [-scale, scale), the same for the same seed on every machine.
inline std::vector<float> random_values(int64_t n, unsigned seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = (static_cast<float>(engine() >> 8) * 0x1p-23f - 1) * scale;
  return values;
}

// A copy of a tensor that the host can look into.
class OnHost {
 public:
  explicit OnHost(const Tensor& x) : bytes_(static_cast<size_t>(x.bytes())), shape_(x.shape()), type_(x.dtype()) {
    if (!bytes_.empty()) device::read(x, bytes_.data());
  }
  Tensor tensor() { return {bytes_.data(), shape_, type_}; }
  template <class T>
  const T* data() const {
    EXPECT_EQ(type_, dtype_of<T>);
    return reinterpret_cast<const T*>(bytes_.data());
  }

 private:
  std::vector<std::byte> bytes_;
  Shape shape_;
  DType type_;
};

// A context that works: `DeviceCtx dev; Ctx& c = dev.c;`. fused = false makes the fronts take the plain forms.
struct DeviceCtx {
  explicit DeviceCtx(int threads = 2, bool fused = true) : pool(threads), c(prepare(fused)) {}
  operator Ctx&() { return c; }

  // Tensors live in the request region, so scopes of scratch do not end them.
  Tensor tensor(const Shape& shape, std::span<const float> values, DType type = DType::f32) {
    const Tensor x = c.empty(shape, type, c.request());
    EXPECT_EQ(x.size(), static_cast<int64_t>(values.size()));
    if (x.size() == 0) return x;
    if (type == DType::f32) device::write(values.data(), x);
    if (type == DType::bf16) {
      std::vector<bf16> narrow(values.size());
      std::ranges::transform(values, narrow.begin(), [](float v) { return bf16(v); });
      device::write(narrow.data(), x);
    }
    return x;
  }
  Tensor random(const Shape& shape, unsigned seed, DType type = DType::f32, float scale = 1) {
    return tensor(shape, random_values(shape.size(), seed, scale), type);
  }
  Tensor ints(std::span<const int32_t> values) {
    const Tensor x = c.empty({static_cast<int64_t>(values.size())}, DType::i32, c.request());
    device::write(values.data(), x);
    return x;
  }
  Tensor poisoned(const Shape& shape, DType type) {  // every element NaN
    const Tensor x = c.empty(shape, type, c.request());
    if (x.bytes() > 0) device::poison(x.raw(), static_cast<size_t>(x.bytes()));
    return x;
  }
  // Fills what scratch will hand out next with NaN, so that an op that leaves a hole in its result is caught.
  void poison_scratch(size_t bytes = 8u << 20) {
    Scope scope(c.scratch());
    device::poison(c.scratch().take(bytes), bytes);
  }

  Pool pool;
  std::unique_ptr<Backend> backend = device::make_backend();
  Rank rank;
  Ctx c;

 private:
  Rank& prepare(bool fused) {
    device::prepare(rank, *backend);
    rank.traits.fused_glue = fused;
    rank.pool = &pool;
    return rank;
  }
};

// The elements of a tensor of any compute type (or int32, uint8) as fp32.
inline std::vector<float> values_of(const Tensor& x) {
  const OnHost host(x);
  std::vector<float> values(static_cast<size_t>(x.size()));
  const auto read = [&]<class T>(T) {
    const T* from = host.data<T>();
    std::transform(from, from + x.size(), values.begin(), [](T v) { return static_cast<float>(v); });
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
  OnHost here(a), there(b);
  const auto *left = static_cast<const std::byte*>(here.tensor().raw()),
             *right = static_cast<const std::byte*>(there.tensor().raw());
  int64_t differ = 0, first = -1;
  for (int64_t i = 0; i < a.bytes(); ++i)
    if (left[i] != right[i] && ++differ == 1) first = i / bytes_of(a.dtype());
  EXPECT_EQ(differ, 0) << "bytes differ, first in element " << first;
}

}  // namespace zoetrope
