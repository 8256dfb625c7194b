// What the kernels are made of: eight elements at a time by 16-byte accesses where the address allows it, one by one
// where not (same values, same order); sums within a group of lanes; the functions of docs/numerics.md. Arithmetic is
// fp32 and a result is rounded once. The files are compiled with --fmad=false, so + and * round separately.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "core/tensor.h"
#include "core/with_type.h"

namespace zoetrope::cuda {

// Two bf16 in a word, to nearest even; NaN stays one.
__device__ inline uint32_t narrow_pair(float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(bf16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }
__device__ inline void narrow(float& y, float v) { y = v; }
__device__ inline void narrow(bf16& y, float v) { y.bits = static_cast<uint16_t>(narrow_pair(v, 0)); }

__device__ inline float rounded(float v, float) { return v; }
__device__ inline float rounded(float v, bf16) { return __uint_as_float(narrow_pair(v, 0) << 16); }

// Whether p + 8k can be read 16 bytes at a time, for all k.
template <class T>
__host__ __device__ inline bool aligned(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

// Eight neighbouring elements as they lie in memory: bf16 take half of the registers until they are widened.
template <class T>
struct Eight {
  uint32_t words[2 * sizeof(T)] = {};

  __device__ void read(const T* p) {  // aligned
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i) {
      const uint4 u = reinterpret_cast<const uint4*>(p)[i];
      words[4 * i] = u.x, words[4 * i + 1] = u.y, words[4 * i + 2] = u.z, words[4 * i + 3] = u.w;
    }
  }
  __device__ void set(int i, float x) { words[i] = __float_as_uint(x); }
  __device__ void set(int i, bf16 x) { words[i / 2] |= static_cast<uint32_t>(x.bits) << (16 * (i % 2)); }
  __device__ void widen(float* v) const {
#pragma unroll
    for (int i = 0; i < 8; ++i)  // a bf16 is the upper half of an fp32
      if constexpr (sizeof(T) == 4)
        v[i] = __uint_as_float(words[i]);
      else
        v[i] = __uint_as_float(i % 2 ? words[i / 2] & 0xFFFF0000u : words[i / 2] << 16);
  }
};

template <class T>
__device__ void load_vector(const T* p, float* v) {
  Eight<T> e;
  e.read(p);
  e.widen(v);
}
__device__ inline void store_vector(float* p, const float* v) {
  *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]);
  *reinterpret_cast<float4*>(p + 4) = make_float4(v[4], v[5], v[6], v[7]);
}
__device__ inline void store_vector(bf16* p, const float* v) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = narrow_pair(v[2 * i], v[2 * i + 1]);
  *reinterpret_cast<uint4*>(p) = make_uint4(words[0], words[1], words[2], words[3]);
}

// Elements [i, i + 8) of p[0, n), zeros behind the end. `vector`: p is aligned, and i a multiple of 8.
template <class T>
__device__ inline void load8(const T* p, int64_t i, int64_t n, bool vector, float* v) {
  if (vector && i + 8 <= n) return load_vector(p + i, v);
#pragma unroll
  for (int j = 0; j < 8; ++j) v[j] = i + j < n ? widen(p[i + j]) : 0.0f;
}
template <class T>
__device__ inline void store8(T* p, int64_t i, int64_t n, bool vector, const float* v) {
  if (vector && i + 8 <= n) return store_vector(p + i, v);
#pragma unroll
  for (int j = 0; j < 8; ++j)
    if (i + j < n) narrow(p[i + j], v[j]);
}

// A per-channel vector of either type, or none.
struct Channels {
  const void* data = nullptr;
  bool is_bf16 = false;

  Channels() = default;
  explicit Channels(const Tensor& v) : data(v.raw()), is_bf16(v.dtype() == DType::bf16) {}

  __host__ __device__ bool whole() const { return aligned(data); }  // none is
  __device__ float at(int64_t i) const {
    return is_bf16 ? widen(static_cast<const bf16*>(data)[i]) : static_cast<const float*>(data)[i];
  }
  __device__ void load(int64_t i, int64_t n, bool vector, float* v) const {
    if (is_bf16)
      load8(static_cast<const bf16*>(data), i, n, vector && whole(), v);
    else
      load8(static_cast<const float*>(data), i, n, vector && whole(), v);
  }
};

// 2^x and 1/x as the hardware has them: 2 ulp and 1 ulp.
__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ inline float silu_of(float x) { return x / (1.0f + expf(-x)); }

// x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3), written as x / (1 + exp(-2u)).
__device__ inline float gelu_of(float x) {
  const float u = 0x1.988454p-1f * (x + 0.044715f * (x * x * x));
  return x / (1.0f + expf(-2.0f * u));
}

// The sum over a group of 2^k neighbouring lanes of a warp, in all of them.
__device__ inline float group_sum(float x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
  return x;
}

template <class T>
T* pointer(const Tensor& x) {
  return static_cast<T*>(x.raw());
}

}  // namespace zoetrope::cuda
