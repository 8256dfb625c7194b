// Glue kernels of a Wan block, width 5120, fp32 residual. One block of 320 threads a token, 16 elements a thread.
#pragma once
#include "probe.h"
constexpr int C = 5120, H = 40, HD = 128, TPB = 320, E = 16;  // thread t owns elements 8t..8t+7 and 2560+8t..

__device__ inline float block_sum(float x, float* red) {
  for (int i = 16; i; i >>= 1) x += __shfl_xor_sync(~0u, x, i);
  if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = x;
  __syncthreads();
  x = red[0];
#pragma unroll
  for (int i = 1; i < TPB / 32; ++i) x += red[i];
  __syncthreads();
  return x;
}
__device__ inline int at(int g) { return g * 2560 + threadIdx.x * 8; }
__device__ inline void load(const float* p, float* v) {
  float4 a = *(const float4*)p, b = *(const float4*)(p + 4);
  v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}
__device__ inline void load(const bf16* p, float* v) {
  uint4 u = *(const uint4*)p;
  const bf16* q = (const bf16*)&u;
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = (float)q[i];
}
__device__ inline void store(float* p, const float* v) {
  *(float4*)p = make_float4(v[0], v[1], v[2], v[3]);
  *(float4*)(p + 4) = make_float4(v[4], v[5], v[6], v[7]);
}
__device__ inline void store(bf16* p, const float* v) {
  uint4 u;
  bf16* q = (bf16*)&u;
#pragma unroll
  for (int i = 0; i < 8; ++i) q[i] = (bf16)v[i];
  *(uint4*)p = u;
}
// h += y*gate (gate null: h += y; y null: nothing), then n = bf16(LN(h)*a + b): a = 1+scale or weight, b = shift or
// bias. Both are given as vectors.
__global__ void __launch_bounds__(TPB)
    residual_norm_k(float* h, const bf16* y, const float* gate, const float* a, const float* b, int one_plus, bf16* n) {
  __shared__ float red[TPB / 32];
  size_t row = (size_t)blockIdx.x * C;
  float v[E];
#pragma unroll
  for (int g = 0; g < 2; ++g) load(h + row + at(g), v + 8 * g);
  if (y) {
#pragma unroll
    for (int g = 0; g < 2; ++g) {
      float w[8], t[8];
      load(y + row + at(g), w);
      if (gate) {
        load(gate + at(g), t);
#pragma unroll
        for (int i = 0; i < 8; ++i) w[i] *= t[i];
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) v[8 * g + i] += w[i];
      store(h + row + at(g), v + 8 * g);
    }
  }
  if (!n) return;
  float s = 0, q = 0;
#pragma unroll
  for (int i = 0; i < E; ++i) s += v[i];
  float mean = block_sum(s, red) / C;
#pragma unroll
  for (int i = 0; i < E; ++i) q += (v[i] - mean) * (v[i] - mean);
  float r = rsqrtf(block_sum(q, red) / C + 1e-6f);
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    float w[8], t[8];
    load(a + at(g), w), load(b + at(g), t);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[8 * g + i] = (v[8 * g + i] - mean) * r * (one_plus ? 1 + w[i] : w[i]) + t[i];
    store(n + row + at(g), v + 8 * g);
  }
}
// In place: x = rope(RMS(x) * w). grid (S, parts); part p starts at p*C in a row of `stride`. cs: [S, 64] (cos, sin)
// pairs or null.
__global__ void __launch_bounds__(TPB)
    rms_rope_k(bf16* x, size_t stride, const bf16* w0, const bf16* w1, const float2* cs) {
  __shared__ float red[TPB / 32];
  bf16* p = x + blockIdx.x * stride + blockIdx.y * C;
  const bf16* w = blockIdx.y ? w1 : w0;
  float v[E], q = 0;
#pragma unroll
  for (int g = 0; g < 2; ++g) load(p + at(g), v + 8 * g);
#pragma unroll
  for (int i = 0; i < E; ++i) q += v[i] * v[i];
  float r = rsqrtf(block_sum(q, red) / C + 1e-6f);
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    float t[8];
    load(w + at(g), t);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[8 * g + i] = (float)(bf16)(v[8 * g + i] * r * t[i]);
    if (cs) {
      const float4* c = (const float4*)(cs + (size_t)blockIdx.x * 64 + (at(g) % HD) / 2);
      float4 c0 = c[0], c1 = c[1];
      float co[4] = {c0.x, c0.z, c1.x, c1.z}, si[4] = {c0.y, c0.w, c1.y, c1.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float a = v[8 * g + 2 * i], b = v[8 * g + 2 * i + 1];
        v[8 * g + 2 * i] = a * co[i] - b * si[i];
        v[8 * g + 2 * i + 1] = a * si[i] + b * co[i];
      }
    }
    store(p + at(g), v + 8 * g);
  }
}
