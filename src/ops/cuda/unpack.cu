// What a file holds, in the memory of the device: converted, put in order, looked at.
#include <cuda_fp16.h>

#include "core/digest.h"
#include "core/unpack.h"
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {

// Beside those of device.cuh.
__device__ inline float widen(f16 x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ inline void load_vector(const f16* p, float* v) {
  const uint4 u = *reinterpret_cast<const uint4*>(p);
  const uint32_t words[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i])));
    v[2 * i + 1] = __half2float(__ushort_as_half(static_cast<unsigned short>(words[i] >> 16)));
  }
}

namespace {

constexpr int threads = 256;
constexpr int64_t most_blocks = 4096;

// An exponent of all ones. A store to host memory that others make, too, with the same value.
__device__ inline bool full(float x) { return (__float_as_uint(x) & 0x7F800000u) == 0x7F800000u; }
__device__ inline bool full(bf16 x) { return (x.bits & 0x7F80u) == 0x7F80u; }

template <class X, class Y>
__global__ void run_kernel(const X* x, Y* y, int64_t n, bool vector, int* bad) {
  bool found = false;
  const int64_t step = int64_t{8} * threads * gridDim.x;
  for (int64_t i = 8 * (static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x); i < n; i += step) {
    float v[8];
    if (vector && i + 8 <= n) {
      load_vector(x + i, v);
    } else {
      for (int j = 0; j < 8; ++j) v[j] = i + j < n ? widen(x[i + j]) : 0.0f;
    }
    for (int j = 0; j < 8; ++j) {
      Y result;
      narrow(result, v[j]);
      found |= full(result);
    }
    store8(y, i, n, vector, v);
  }
  if (found) *bad = 1;
}

template <class X>
__global__ void look_kernel(const X* x, int64_t n, int* bad) {
  bool found = false;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; i < n; i += int64_t{threads} * gridDim.x)
    found |= full(x[i]);
  if (found) *bad = 1;
}

template <class X, class Y>
__global__ void unpack_kernel(const X* x, Y* y, Unpack u, int64_t n, int* bad) {
  bool found = false;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; e < n; e += int64_t{threads} * gridDim.x) {
    const int64_t i = e % u.inner, k = e / u.inner % u.kernel, r = e / (u.inner * u.kernel);
    Y result;
    narrow(result, widen(x[r * u.row + i * u.kernel + k]));
    y[(r * u.kernel + k) * u.pitch + i] = result;
    found |= full(result);
  }
  if (found) *bad = 1;
}

// The sum of mixed words: the same in any order.
__global__ void digest_kernel(const uint8_t* x, int64_t bytes, unsigned long long* sum) {
  unsigned long long mine = 0;
  const int64_t words = (bytes + 7) / 8;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; i < words;
       i += int64_t{threads} * gridDim.x) {
    uint64_t word = 0;
    if (8 * i + 8 <= bytes)
      word = *reinterpret_cast<const uint64_t*>(x + 8 * i);
    else
      for (int64_t b = 8 * i; b < bytes; ++b) word |= static_cast<uint64_t>(x[b]) << (8 * (b - 8 * i));
    mine += digest_word(word, i);
  }
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xFFFFFFFFu, mine, step);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

dim3 some_blocks(int64_t n, int64_t each) {
  const int64_t wanted = (n + each - 1) / each;
  return dim3(static_cast<unsigned>(wanted < most_blocks ? wanted : most_blocks));
}

template <class F>
void with_stored(DType type, F f) {
  if (type == DType::f16)
    f(f16{});
  else
    with_type(type, f);
}

}  // namespace

void look(cudaStream_t s, const Tensor& x, int* bad) {
  with_type(x.dtype(), [&]<class X>(X) {
    launch(look_kernel<X>, some_blocks(x.size(), 4 * threads), dim3(threads), s, pointer<const X>(x), x.size(), bad);
  });
}

void unpack(cudaStream_t s, const void* stored, DType type, const Unpack& how, const Tensor& to, int* bad) {
  const int64_t n = how.elements();
  with_stored(type, [&]<class X>(X) {
    with_type(to.dtype(), [&]<class Y>(Y) {
      const X* x = static_cast<const X*>(stored);
      Y* y = pointer<Y>(to);
      if (how.contiguous())
        launch(run_kernel<X, Y>, some_blocks(n, 8 * threads), dim3(threads), s, x, y, n, aligned(x) && aligned(y), bad);
      else
        launch(unpack_kernel<X, Y>, some_blocks(n, 4 * threads), dim3(threads), s, x, y, how, n, bad);
    });
  });
}

void digest(cudaStream_t s, const Tensor& x, unsigned long long* sum) {
  launch(digest_kernel, some_blocks(x.bytes(), 32 * threads), dim3(threads), s, pointer<const uint8_t>(x), x.bytes(),
         sum);
}

}  // namespace zoetrope::cuda
