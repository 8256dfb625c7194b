// No step below may be contracted or split by the compiler into other bits: every product that meets a sum is written
// as std::fma where torch's build fuses it, and all other products are either exact or meet no sum. Any optimisation
// level, with or without hardware FMA, therefore gives the same words (a test holds them).
#include "sched/noise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>
#include <utility>

#include "base/error.h"

namespace zoetrope {
namespace {

struct SinCos {
  float sin, cos;
};

// ln(u) for u in [2^-24, 1]: the single-precision Cephes polynomial (S. Moshier, public), evaluated with fused steps.
float log_cephes(float u) {
  constexpr std::array<float, 9> p = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                      -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                      2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f, sqrt_half = 0.707106781186547524f;
  const auto bits = std::bit_cast<uint32_t>(u);
  const float m = std::bit_cast<float>((bits & 0x007fffffu) | 0x3f000000u);  // mantissa, in [1/2, 1)
  const bool low = m < sqrt_half;
  const float e = static_cast<float>(static_cast<int>(bits >> 23) - (low ? 127 : 126));
  const float x = low ? (m - 1.0f) + m : m - 1.0f;  // exact: u = (1 + x) 2^e, |x| < 0.42
  const float z = x * x;
  float y = p[0];
  for (size_t i = 1; i < p.size(); ++i) y = std::fma(y, x, p[i]);
  y = std::fma(y * x, z, e * ln2_low);
  y = std::fma(-0.5f, z, y);
  return std::fma(e, ln2_high, x + y);
}

// sin and cos of a >= 0: octant j, three-part pi/4 reduction, two Cephes polynomials that swap places every second
// octant.
SinCos sincos_cephes(float a) {
  constexpr float four_over_pi = 1.27323954473516f;
  constexpr float pi4_1 = 0.78515625f, pi4_2 = 2.4187564849853515625e-4f, pi4_3 = 3.77489497744594108e-8f;
  const int j = (static_cast<int>(a * four_over_pi) + 1) & ~1;
  const float n = static_cast<float>(j);
  const float x = std::fma(n, -pi4_3, std::fma(n, -pi4_2, std::fma(n, -pi4_1, a)));
  const float z = x * x;
  float c = std::fma(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  c = std::fma(c, z, 4.166664568298827e-2f) * z;
  c = std::fma(c, z, -0.5f * z) + 1.0f;
  float s = std::fma(-1.9515295891e-4f, z, 8.3321608736e-3f);
  s = std::fma(s, z, -1.6666654611e-1f) * z;
  s = std::fma(x, s, x);
  if (j & 2) std::swap(s, c);
  return {(j & 4) ? -s : s, ((j + 2) & 4) ? -c : c};
}

// 24 random bits to [0, 1).
float uniform(std::mt19937& engine) { return static_cast<float>(engine() & 0xffffffu) * 0x1p-24f; }

// 16 uniforms to 16 normals in place (Box and Muller 1958): cosines of the pairs (i, i + 8) first, then sines.
void normal_16(float* block) {
  constexpr float two_pi = 6.283185307179586f;
  for (int i = 0; i < 8; ++i) {
    const float radius = std::sqrt(-2.0f * log_cephes(1.0f - block[i]));
    const SinCos t = sincos_cephes(two_pi * block[i + 8]);
    block[i] = radius * t.cos + 0.0f;  // torch multiplies by 1 and adds 0, which turns -0 into +0
    block[i + 8] = radius * t.sin + 0.0f;
  }
}

// From 16 elements on: all uniforms first, whole blocks, then the last 16 places drawn anew if the size is ragged.
void fill_cpu_blocks(std::span<float> out, std::mt19937& engine) {
  std::generate(out.begin(), out.end(), [&] { return uniform(engine); });
  for (size_t i = 0; i + 16 <= out.size(); i += 16) normal_16(&out[i]);
  if (out.size() % 16 == 0) return;
  const std::span<float> tail = out.last(16);
  std::generate(tail.begin(), tail.end(), [&] { return uniform(engine); });
  normal_16(tail.data());
}

double uniform_53(std::mt19937& engine) {
  const uint64_t high = engine();
  return static_cast<double>((high << 32 | engine()) & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

// Below 16 elements: one pair at a time in double, cosine first; the spare sine of an odd size is dropped.
void fill_cpu_few(std::span<float> out, std::mt19937& engine) {
  for (size_t i = 0; i < out.size(); i += 2) {
    const double u1 = uniform_53(engine), u2 = uniform_53(engine);
    const double radius = std::sqrt(-2.0 * std::log1p(-u2)), theta = 2.0 * std::numbers::pi * u1;
    out[i] = static_cast<float>(radius * std::cos(theta));
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(radius * std::sin(theta));
  }
}

using Words = std::array<uint32_t, 4>;

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC11): ten rounds, the key grows by the Weyl constants between rounds.
Words philox(Words c, uint64_t seed) {
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53u} * c[0], b = uint64_t{0xcd9e8d57u} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c;
}

// cuRAND's pair: sine first. u and v are the device's floats exactly (its build fuses them); the rest is rounded once,
// here.
std::array<float, 2> normal_pair(uint32_t x, uint32_t y) {
  const float u = std::fma(static_cast<float>(x), 0x1p-32f, 0x1p-33f);
  const float v = std::fma(static_cast<float>(y), 0x1.921fb6p-30f, 0x1.921fb6p-31f);  // 2 pi 2^-32
  const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(u)));
  return {static_cast<float>(radius * std::sin(static_cast<double>(v))),
          static_cast<float>(radius * std::cos(static_cast<double>(v)))};
}

// A grid-stride loop: thread i owns Philox subsequence i; its draw number k fills places i + stride (4k + 0, 1, 2, 3).
void fill_cuda(std::span<float> out, uint64_t seed, const NoiseSpec& spec) {
  const auto grid = static_cast<uint64_t>(spec.multiprocessors) * static_cast<uint64_t>(spec.blocks_per_multiprocessor);
  const uint64_t n = out.size(), stride = std::min(grid, (n + 255) / 256) * 256;
  for (uint64_t draw = 0; draw * 4 * stride < n; ++draw) {
    for (uint64_t thread = 0; thread < stride; ++thread) {
      const uint64_t first = draw * 4 * stride + thread;
      if (first >= n) break;
      const Words w = philox({static_cast<uint32_t>(draw), 0, static_cast<uint32_t>(thread), 0}, seed);
      const auto a = normal_pair(w[0], w[1]), b = normal_pair(w[2], w[3]);
      const float values[4] = {a[0], a[1], b[0], b[1]};
      for (uint64_t i = 0; i < 4 && first + i * stride < n; ++i) out[first + i * stride] = values[i];
    }
  }
}

[[noreturn]] void refuse(std::string_view text) {
  fail(Code::invalid, "noise: '", text,
       "' is not one of the forms torch-cpu, torch-cuda:132x8 (multiprocessors x blocks of 256 threads on each; 132x8 "
       "is "
       "an H200)");
}

int parse_positive(std::string_view digits, std::string_view whole) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 1 || value > 65535) refuse(whole);
  return value;
}

}  // namespace

NoiseSpec parse_noise(std::string_view text) {
  constexpr std::string_view cuda = "torch-cuda:";
  if (text == "torch-cpu") return {};
  if (!text.starts_with(cuda)) refuse(text);
  const std::string_view grid = text.substr(cuda.size());
  const size_t x = grid.find('x');
  if (x == grid.npos) refuse(text);
  return {NoiseKind::torch_cuda, parse_positive(grid.substr(0, x), text), parse_positive(grid.substr(x + 1), text)};
}

std::string to_string(const NoiseSpec& spec) {
  if (spec.kind == NoiseKind::torch_cpu) return "torch-cpu";
  return "torch-cuda:" + std::to_string(spec.multiprocessors) + "x" + std::to_string(spec.blocks_per_multiprocessor);
}

void fill_normal(std::span<float> out, uint64_t seed, NoiseSpec spec) {
  if (spec.kind == NoiseKind::torch_cuda) {
    if (spec.multiprocessors < 1 || spec.blocks_per_multiprocessor < 1) refuse(to_string(spec));
    if (out.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
      fail(Code::unsupported, "noise: torch-cuda with ", out.size(),
           " elements: torch splits its launch above 2^31 - 1, which is not built here; use torch-cpu");
    return fill_cuda(out, seed, spec);
  }
  std::mt19937 engine(static_cast<uint32_t>(seed));  // torch keeps the low 32 bits of a seed
  if (out.size() < 16) return fill_cpu_few(out, engine);
  fill_cpu_blocks(out, engine);
}

}  // namespace zoetrope
