// y = x / max(|x|, 1e-12) sqrt(C) gamma, then SiLU if asked; x += more before it, if given.
//
// A pixel belongs to `lanes` threads of a warp, a power of two; each has up to `most` chunks of eight channels, chunk c
// of lane l at 8 (c lanes + l), so that a pixel of 96, 192 or 384 channels fills them all. A thread adds its squares in
// ascending order, lanes are folded by halves: bits depend on the pixel and on C alone.
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

// `each` pixels a group of lanes, so that loads of the next are under way and gamma is read once.
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
    const float length = sqrtf(group_sum(sum, op.lanes));
    inverse[p] = op.root / (length > 1e-12f || length != length ? length : 1e-12f);
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
    const bool vector = n % 8 == 0 && aligned(pointer<X>(x)) && aligned(pointer<X>(more)) && aligned(pointer<X>(y));
    const auto run = more.defined() ? (vector ? norm_pixels<X, true, true> : norm_pixels<X, true, false>)
                                    : (vector ? norm_pixels<X, false, true> : norm_pixels<X, false, false>);
    run(s, x, more, op, y);
  });
}

}  // namespace zoetrope::cuda
