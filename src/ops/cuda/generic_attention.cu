// Attention for any type, width, bias and mask: tiles of 32 keys with an online softmax (Milakov and Gimelshein 2018),
// fp32 throughout. A warp owns `own` queries. For the logits a lane owns a key, or a part of its width where a tile has
// fewer keys than a warp has lanes; for the output it owns every 32nd
// element. Keys are taken in order, so a query's bits depend on its own row and on the keys alone.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

constexpr int warps = 4, threads = 32 * warps;
constexpr unsigned all = 0xFFFFFFFFu;

struct Shape3 {
  int64_t q_row, k_row, v_row;
  int queries, keys, real, heads, group, width;  // group: query heads a key head
  float scale;
  bool causal;
  const float* bias;  // [N, S + K - 1] or null
};

__device__ inline float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(all, x, step));
  return x;
}

// most: the widest head; own: queries a warp; keys: of a tile, 32 or fewer so that a tile fits into shared memory.
template <int most, int own, int tile, class X>
__global__ void __launch_bounds__(threads)
    attention_kernel(const X* q, const X* k, const X* v, Shape3 s, X* o, float* lse) {
  constexpr int pitch = most + 4;  // 16 bytes on, so that eight lanes read eight keys without a bank in common
  constexpr int parts = (most + 31) / 32;
  __shared__ __align__(16) float queries[warps * own][most];
  __shared__ __align__(16) float rows[tile][pitch];  // keys, then values
  __shared__ __align__(16) float weights[warps * own][tile];
  const int head = blockIdx.y, first = blockIdx.x * warps * own, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int filled = (s.width + 3) / 4 * 4;  // products run over fours

  const auto load_rows = [&](float* to, int stride, const X* from, int64_t row, int count, int size) {
    for (int i = threadIdx.x; i < size * filled; i += threads) {
      const int r = i / filled, d = i % filled;
      to[r * stride + d] = r < count && d < s.width ? widen(from[r * row + d]) : 0.0f;
    }
  };
  load_rows(&queries[0][0], most, q + first * s.q_row + static_cast<int64_t>(head) * s.width, s.q_row,
            min(warps * own, s.queries - first), warps * own);
  const int64_t key_head = static_cast<int64_t>(head / s.group) * s.width;

  const auto seen_by = [&](int query) {  // keys that a query sees
    return s.causal ? max(0, min(query + 1 + s.keys - s.queries, s.real)) : s.real;
  };
  float top[own], total[own], sums[own][parts];
#pragma unroll
  for (int r = 0; r < own; ++r) {
    top[r] = -INFINITY, total[r] = 0;
#pragma unroll
    for (int p = 0; p < parts; ++p) sums[r][p] = 0;
  }
  const int last = seen_by(min(first + warps * own, s.queries) - 1);
  for (int key = 0; key < last; key += tile) {
    const int count = min(tile, s.real - key);  // what lies behind the real keys may be anything
    __syncthreads();
    load_rows(&rows[0][0], pitch, k + key * s.k_row + key_head, s.k_row, count, tile);
    __syncthreads();
    float logits[own] = {};
    for (int d = 4 * (lane / tile); d < filled; d += 4 * (32 / tile)) {
      const float4 b = *reinterpret_cast<const float4*>(&rows[lane % tile][d]);
#pragma unroll
      for (int r = 0; r < own; ++r) {
        const float4 a = *reinterpret_cast<const float4*>(&queries[warp * own + r][d]);
        logits[r] = fmaf(a.x, b.x, logits[r]), logits[r] = fmaf(a.y, b.y, logits[r]);
        logits[r] = fmaf(a.z, b.z, logits[r]), logits[r] = fmaf(a.w, b.w, logits[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < own; ++r)
      for (int step = tile; step < 32; step *= 2) logits[r] += __shfl_xor_sync(all, logits[r], step);
#pragma unroll
    for (int r = 0; r < own; ++r) {
      const int query = first + warp * own + r, j = key + lane;
      float logit = logits[r] * s.scale;
      if (s.bias && query < s.queries && lane < count)
        logit += s.bias[static_cast<int64_t>(head) * (s.queries + s.keys - 1) + j - query + s.queries - 1];
      if (lane >= count || query >= s.queries || j >= seen_by(query)) logit = -INFINITY;
      const float now = fmaxf(top[r], warp_max(logit));
      // Nothing seen so far: no weight, except that a NaN has to come through.
      const float weight = now == -INFINITY ? (logit != logit ? logit : 0.0f) : expf(logit - now);
      const float factor = now == -INFINITY ? 1.0f : expf(top[r] - now);
      total[r] = total[r] * factor + group_sum(weight, 32);
      top[r] = now;
      if (lane < tile) weights[warp * own + r][lane] = weight;
#pragma unroll
      for (int p = 0; p < parts; ++p) sums[r][p] *= factor;
    }
    __syncthreads();
    load_rows(&rows[0][0], pitch, v + key * s.v_row + key_head, s.v_row, count, tile);
    __syncthreads();
    for (int j = 0; j < tile; ++j)
#pragma unroll
      for (int p = 0; p < parts; ++p) {
        if (32 * p + lane >= filled) continue;
        const float value = rows[j][32 * p + lane];
#pragma unroll
        for (int r = 0; r < own; ++r) sums[r][p] = fmaf(weights[warp * own + r][j], value, sums[r][p]);
      }
  }
#pragma unroll
  for (int r = 0; r < own; ++r) {
    const int query = first + warp * own + r;
    if (query >= s.queries) continue;
    const float factor = total[r] == 0 ? 0.0f : 1 / total[r];
#pragma unroll
    for (int p = 0; p < parts; ++p)
      if (32 * p + lane < s.width)
        narrow(o[(static_cast<int64_t>(query) * s.heads + head) * s.width + 32 * p + lane], sums[r][p] * factor);
    if (lane == 0)
      lse[static_cast<int64_t>(head) * s.queries + query] = total[r] == 0 ? -INFINITY : top[r] + logf(total[r]);
  }
}

template <int most, int own, int tile, class X>
void launch_attention(cudaStream_t stream, const Heads& q, const Heads& k, const Heads& v, float scale, bool causal,
                      int64_t keys, const Tensor& bias, const Tensor& o, const Tensor& lse) {
  const Shape3 s{q.row,
                 k.row,
                 v.row,
                 static_cast<int>(q.tokens),
                 static_cast<int>(k.tokens),
                 static_cast<int>(keys),
                 static_cast<int>(q.heads),
                 static_cast<int>(q.heads / k.heads),
                 static_cast<int>(q.width),
                 scale,
                 causal,
                 pointer<const float>(bias)};
  dim3 grid = blocks(q.tokens, warps * own);
  grid.y = static_cast<unsigned>(q.heads);
  launch(attention_kernel<most, own, tile, X>, grid, dim3(threads), stream, pointer<const X>(q.buf) + q.at,
         pointer<const X>(k.buf) + k.at, pointer<const X>(v.buf) + v.at, s, pointer<X>(o), pointer<float>(lse));
}

}  // namespace

void generic_attention(cudaStream_t stream, const Heads& q, const Heads& k, const Heads& v, float scale, bool causal,
                       int64_t keys, const Tensor& relative_bias, const Tensor& o, const Tensor& lse) {
  with_type(q.dtype(), [&]<class X>(X) {
    if (q.width <= 128)
      launch_attention<128, 8, 32, X>(stream, q, k, v, scale, causal, keys, relative_bias, o, lse);
    else
      launch_attention<512, 2, 8, X>(stream, q, k, v, scale, causal, keys, relative_bias, o, lse);
  });
}

}  // namespace zoetrope::cuda
