// y = x / max(|x|, 1e-12) sqrt(C) gamma, then SiLU if asked; x += more before it, if given.
//
// A pixel belongs to `lanes` threads of a warp, a power of two; each has up to `most` chunks of eight channels, chunk c
// of lane l at 8 (c lanes + l), so that a pixel of 96, 192 or 384 channels fills them all. A thread adds its squares in
// ascending order, lanes are folded by halves: bits depend on the pixel and on C alone. Two kernels, of equal bits: one
// for full lanes of bf16, whose loads are all under way before the first is needed, and one for everything else, which
// has to look at each chunk's end and address and so waits for one load after the other.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/rows.cuh"

namespace zoetrope::cuda {
namespace {

constexpr int threads = 128, most = 3;
constexpr int64_t most_here = 8 * most * 32;

// SiLU of what is rounded to bf16 comes from the units for 2^x and 1/x: good to 2^-20, and it costs less than the
// memory.
__device__ inline float silu_of(float x, bf16) { return x * reciprocal(1.0f + exp2_of(x * -0x1.715476p+0f)); }
__device__ inline float silu_of(float x, float) { return cuda::silu_of(x); }

struct Norm {
  Channels gamma;
  int64_t pixels;
  int n, lanes;
  float root;  // sqrt(C)
  bool silu;
};

__device__ inline float inverse_of(float squares, int lanes, float root) {
  const float length = sqrtf(group_sum(squares, lanes));
  return root / (length > 1e-12f || length != length ? length : 1e-12f);
}

__device__ inline void widen_eight(const uint4& u, float* v) {
  const uint32_t words[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    v[2 * i] = __uint_as_float(words[i] << 16), v[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
}
// Eight values, each rounded to bf16 in place -> their words.
__device__ inline uint4 round_eight(float* v) {
  const uint4 u =
      make_uint4(narrow_pair(v[0], v[1]), narrow_pair(v[2], v[3]), narrow_pair(v[4], v[5]), narrow_pair(v[6], v[7]));
  widen_eight(u, v);
  return u;
}

// Pixels of 24 `lanes` channels; x, more, y and gamma aligned. What lies behind the last pixel reads that one.
template <int lanes, bool add>
__global__ void __launch_bounds__(threads)
    full_lanes_kernel(bf16* x, const bf16* more, const bf16* gamma, Norm op, bf16* y) {
  constexpr int n = 8 * most * lanes, groups = threads / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int64_t pixel = static_cast<int64_t>(blockIdx.x) * groups + static_cast<int>(threadIdx.x) / lanes;
  const bool live = pixel < op.pixels;
  const int64_t at = (live ? pixel : op.pixels - 1) * n + 8 * lane;
  float v[most][8];
#pragma unroll
  for (int c = 0; c < most; ++c) load_vector(x + at + 8 * lanes * c, v[c]);
  uint4 gain[most];  // before anything is stored, behind which it could not be moved
#pragma unroll
  for (int c = 0; c < most; ++c) gain[c] = *reinterpret_cast<const uint4*>(gamma + 8 * (lanes * c + lane));
  if (add) {
    float w[most][8];
#pragma unroll
    for (int c = 0; c < most; ++c) load_vector(more + at + 8 * lanes * c, w[c]);
#pragma unroll
    for (int c = 0; c < most; ++c) {
#pragma unroll
      for (int j = 0; j < 8; ++j) v[c][j] += w[c][j];
      const uint4 sum = round_eight(v[c]);
      if (live) *reinterpret_cast<uint4*>(x + at + 8 * lanes * c) = sum;
    }
  }
  float squares = 0;
#pragma unroll
  for (int c = 0; c < most; ++c)
#pragma unroll
    for (int j = 0; j < 8; ++j) squares = fmaf(v[c][j], v[c][j], squares);
  const float inverse = inverse_of(squares, lanes, op.root);
#pragma unroll
  for (int c = 0; c < most; ++c) {
    float g[8];
    widen_eight(gain[c], g);
#pragma unroll
    for (int j = 0; j < 8; ++j) v[c][j] = v[c][j] * inverse * g[j];
    if (op.silu) {
#pragma unroll
      for (int j = 0; j < 8; ++j) v[c][j] = silu_of(v[c][j], bf16{});
    }
    if (live) store_vector(y + at + 8 * lanes * c, v[c]);
  }
}

// `each` pixels a group of lanes: gamma is read once.
template <class X, bool add, bool vector, int each>
__global__ void __launch_bounds__(threads) channel_norm_kernel(X* x, const X* more, Norm op, X* y) {
  const int groups = threads / op.lanes, lane = threadIdx.x % op.lanes, n = op.n;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * each * groups + threadIdx.x / op.lanes;
  const auto at = [&](int c) { return 8 * (c * op.lanes + lane); };
  float v[each][most][8];
#pragma unroll
  for (int p = 0; p < each; ++p)
#pragma unroll
    for (int c = 0; c < most; ++c) {
      const int64_t pixel = first + p * groups;
      if (pixel < op.pixels && at(c) < n)
        load8(x + pixel * n, at(c), n, vector, v[p][c]);
      else
        for (int j = 0; j < 8; ++j) v[p][c][j] = 0;
    }
  if (add) {
#pragma unroll
    for (int p = 0; p < each; ++p)
#pragma unroll
      for (int c = 0; c < most; ++c) {
        const int64_t pixel = first + p * groups;
        if (pixel >= op.pixels || at(c) >= n) continue;
        float w[8];
        load8(more + pixel * n, at(c), n, vector, w);
#pragma unroll
        for (int j = 0; j < 8; ++j) v[p][c][j] = rounded(v[p][c][j] + w[j], X{});
        store8(x + pixel * n, at(c), n, vector, v[p][c]);
      }
  }
  float inverse[each];
#pragma unroll
  for (int p = 0; p < each; ++p) {
    float sum = 0;
#pragma unroll
    for (int c = 0; c < most; ++c)
#pragma unroll
      for (int j = 0; j < 8; ++j) sum = fmaf(v[p][c][j], v[p][c][j], sum);
    inverse[p] = inverse_of(sum, op.lanes, op.root);
  }
#pragma unroll
  for (int c = 0; c < most; ++c) {
    if (at(c) >= n) continue;
    float gain[8];
    op.gamma.load(at(c), n, vector, gain);
#pragma unroll
    for (int p = 0; p < each; ++p) {
      const int64_t pixel = first + p * groups;
      if (pixel >= op.pixels) continue;
#pragma unroll
      for (int j = 0; j < 8; ++j) v[p][c][j] = v[p][c][j] * inverse[p] * gain[j];
      if (op.silu) {
#pragma unroll
        for (int j = 0; j < 8; ++j) v[p][c][j] = silu_of(v[p][c][j], X{});
      }
      store8(y + pixel * n, at(c), n, vector, v[p][c]);
    }
  }
}

// Wider pixels: a row of the norms.
template <class X>
struct WideNorm {
  Channels gamma;
  float root;
  bool silu;
  float inverse = 0;

  bool whole() const { return gamma.whole(); }
  template <class L>
  __device__ void statistics(const L& lane, const float* v) {
    const float norm = sqrtf(square_sum(lane, v));
    inverse = root / (norm > 1e-12f || norm != norm ? norm : 1e-12f);
  }
  template <class L>
  __device__ void apply(const L& lane, int i, float* v) const {
    float gain[8];
    lane.load(gamma, i, gain);
    for (int j = 0; j < 8; ++j) v[j] = v[j] * inverse * gain[j];
    if (silu)
      for (int j = 0; j < 8; ++j) v[j] = silu_of(v[j], X{});
  }
};

template <class X, bool add, bool vector>
void norm_pixels(cudaStream_t s, const Tensor& x, const Tensor& more, const Norm& op, const Tensor& y) {
  constexpr int each = add ? 1 : 2;
  launch(channel_norm_kernel<X, add, vector, each>, blocks(op.pixels, each * threads / op.lanes), dim3(threads), s,
         pointer<X>(x), pointer<const X>(more), op, pointer<X>(y));
}

template <int lanes>
void norm_full_lanes(cudaStream_t s, const Tensor& x, const Tensor& more, const Tensor& gamma, const Norm& op,
                     const Tensor& y) {
  launch(more.defined() ? full_lanes_kernel<lanes, true> : full_lanes_kernel<lanes, false>,
         blocks(op.pixels, threads / lanes), dim3(threads), s, pointer<bf16>(x), pointer<const bf16>(more),
         pointer<const bf16>(gamma), op, pointer<bf16>(y));
}

// The released decoder's widths. false: not such pixels.
bool norm_full_lanes(cudaStream_t s, const Tensor& x, const Tensor& more, const Tensor& gamma, const Norm& op,
                     const Tensor& y) {
  const auto fits = [](const Tensor& t) { return t.dtype() == DType::bf16 && aligned(pointer<bf16>(t)); };
  if (op.n != 8 * most * op.lanes || !fits(x) || !fits(y) || !fits(gamma) || (more.defined() && !fits(more)))
    return false;
  switch (op.lanes) {
    case 4:
      return norm_full_lanes<4>(s, x, more, gamma, op, y), true;
    case 8:
      return norm_full_lanes<8>(s, x, more, gamma, op, y), true;
    case 16:
      return norm_full_lanes<16>(s, x, more, gamma, op, y), true;
    default:
      return false;
  }
}

}  // namespace

void channel_norm(cudaStream_t s, const Tensor& x, const Tensor& more, const Tensor& gamma, bool silu,
                  const Tensor& y) {
  if (x.size() == 0) return;
  const int64_t n = x.dim(-1), pixels = x.size() / n;
  const float root = sqrtf(static_cast<float>(n));
  with_type(x.dtype(), [&]<class X>(X) {
    if (n > most_here) {
      if (more.defined()) add(s, x, more);
      return launch_rows(s, pointer<const X>(x), pointer<X>(y), RowShape(pixels, n),
                         WideNorm<X>{Channels(gamma), root, silu});
    }
    int lanes = 1;
    while (8 * most * lanes < n) lanes *= 2;
    const Norm op{Channels(gamma), pixels, static_cast<int>(n), lanes, root, silu};
    if (norm_full_lanes(s, x, more, gamma, op, y)) return;
    const bool vector = n % 8 == 0 && aligned(pointer<X>(x)) && aligned(pointer<X>(more)) && aligned(pointer<X>(y));
    const auto run = more.defined() ? (vector ? norm_pixels<X, true, true> : norm_pixels<X, true, false>)
                                    : (vector ? norm_pixels<X, false, true> : norm_pixels<X, false, false>);
    run(s, x, more, op, y);
  });
}

}  // namespace zoetrope::cuda
