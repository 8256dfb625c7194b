// Ops that move elements, look rows up, or look at all of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vec.h"

namespace zoetrope {
namespace {

template <class X, class Y>
ZOETROPE_CLONES void convert(const X* from, int64_t n, Y* to) {
  for (int64_t i = 0; i < n; ++i) store(to[i], load(from[i]));
}

struct Range {
  float least = std::numeric_limits<float>::infinity(), most = -least;
  int64_t others = 0;  // not finite
};

template <class X>
ZOETROPE_CLONES Range range_of(const X* x, int64_t begin, int64_t end) {
  Range r;
  for (int64_t i = begin; i < end; ++i) {
    const float v = load(x[i]);
    const bool finite = std::fabs(v) <= std::numeric_limits<float>::max();
    r.least = finite && v < r.least ? v : r.least;
    r.most = finite && v > r.most ? v : r.most;
    r.others += !finite;
  }
  return r;
}

// Both directions of patchify: f(image, patch) with the addresses of runs of pw*C elements. image: [T, H, W, C].
template <class F>
void for_patch_rows(const Workers& pool, const Shape& image, int64_t ph, int64_t pw, F f) {
  const int64_t h = image[1] / ph, w = image[2] / pw, run = pw * image[3];
  pool.for_each(image[0] * h, 1, [&](int64_t begin, int64_t end) {
    for (int64_t th = begin; th < end; ++th)  // t * h + row of patches
      for (int64_t i = 0; i < ph; ++i)
        for (int64_t x = 0; x < w; ++x)
          f((th * ph + i) * image[2] * image[3] + x * run, ((th * w + x) * ph + i) * run, run);
  });
}

}  // namespace

void CpuBackend::embedding(Ctx& c, Tensor table, Tensor ids, Tensor y) {
  const int64_t bytes = table.dim(1) * bytes_of(table.dtype());
  c.pool().for_each(ids.dim(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s)
      std::memcpy(static_cast<std::byte*>(y.raw()) + s * bytes,
                  static_cast<const std::byte*>(table.raw()) + ids.data<int32_t>()[s] * bytes,
                  static_cast<size_t>(bytes));
  });
}

// In fp32 step by step (exponent, frequency, angle), because an angle near 1000 shows each of these roundings; the
// functions themselves are taken in fp64 and rounded.
void CpuBackend::timestep_embed(Ctx&, Tensor t, Tensor y) {
  const int64_t half = y.dim(1) / 2;
  for (int64_t k = 0; k < half; ++k) {
    const float exponent = -9.210340371976184f * static_cast<float>(k) / static_cast<float>(half);
    const auto frequency = static_cast<float>(std::exp(static_cast<double>(exponent)));
    for (int64_t r = 0; r < t.dim(0); ++r) {
      const double angle = t.data<float>()[r] * frequency;
      float* row = y.data<float>() + r * 2 * half;
      row[k] = static_cast<float>(std::cos(angle)), row[half + k] = static_cast<float>(std::sin(angle));
    }
  }
}

void CpuBackend::value_range(Ctx& c, Tensor x, Tensor y) {
  Range all;
  std::mutex mutex;
  with_type(x.dtype(), [&]<class X>(X) {
    c.pool().for_each(x.size(), piece_elements, [&](int64_t begin, int64_t end) {
      const Range part = range_of(static_cast<const X*>(x.data<X>()), begin, end);
      const std::lock_guard lock(mutex);  // minimum, maximum and count do not depend on the order
      all.least = std::min(all.least, part.least), all.most = std::max(all.most, part.most), all.others += part.others;
    });
  });
  float* out = y.data<float>();
  out[0] = all.least, out[1] = all.most, out[2] = static_cast<float>(all.others);
}

void CpuBackend::patchify(Ctx& c, Tensor x, int64_t ph, int64_t pw, Tensor y) {
  with_type(x.dtype(), [&]<class X>(X) {
    with_type(y.dtype(), [&]<class Y>(Y) {
      for_patch_rows(c.pool(), x.shape(), ph, pw, [&](int64_t image, int64_t patch, int64_t n) {
        convert(static_cast<const X*>(x.data<X>()) + image, n, y.data<Y>() + patch);
      });
    });
  });
}

void CpuBackend::unpatchify(Ctx& c, Tensor x, int64_t ph, int64_t pw, Tensor y) {
  with_type(x.dtype(), [&]<class X>(X) {
    for_patch_rows(c.pool(), y.shape(), ph, pw, [&](int64_t image, int64_t patch, int64_t n) {
      convert(static_cast<const X*>(x.data<X>()) + patch, n, y.data<float>() + image);
    });
  });
}

void CpuBackend::interleave_frames(Ctx& c, Tensor x, Tensor y) {
  const int64_t pixels = x.dim(1) * x.dim(2), channels = y.dim(3);
  const int64_t run = channels * bytes_of(x.dtype());
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(y.raw());
  c.pool().for_each(x.dim(0) * pixels, std::max<int64_t>(1, piece_elements / channels),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i)
                        for (int64_t odd = 0; odd < 2; ++odd)
                          std::memcpy(to + ((2 * (i / pixels) + odd) * pixels + i % pixels) * run,
                                      from + (2 * i + odd) * run, static_cast<size_t>(run));
                    });
}

}  // namespace zoetrope
