// Element by element: every result is computed in fp32 and rounded once. Eight elements a thread.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

constexpr int threads = 256;

// f(i, v): reads what it needs of elements [i, i + 8) and leaves eight results in v.
template <class Y, class F>
__global__ void elements_kernel(Y* y, int64_t n, F f) {
  const int64_t i = 8 * (static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x);
  if (i >= n) return;
  float v[8];
  f(i, n, v);
  store8(y, i, n, aligned(y), v);
}

template <class Y, class F>
void for_elements(cudaStream_t s, const Tensor& y, const F& f) {
  launch(elements_kernel<Y, F>, blocks(y.size(), 8 * threads), dim3(threads), s, pointer<Y>(y), y.size(), f);
}

template <class X>
struct Read {
  const X* x;

  explicit Read(const Tensor& t) : x(pointer<const X>(t)) {}
  __device__ void operator()(int64_t i, int64_t n, float* v) const { load8(x, i, n, aligned(x), v); }
};

template <class X>
struct Silu {
  Read<X> x;
  __device__ void operator()(int64_t i, int64_t n, float* v) const {
    x(i, n, v);
    for (int j = 0; j < 8; ++j) v[j] = silu_of(v[j]);
  }
};

template <class X>
struct GatedGelu {
  Read<X> a, b;
  __device__ void operator()(int64_t i, int64_t n, float* v) const {
    float factor[8];
    a(i, n, v), b(i, n, factor);
    for (int j = 0; j < 8; ++j) v[j] = gelu_of(v[j]) * factor[j];
  }
};

template <class X, class Y>
struct Add {
  Read<X> a;
  Read<Y> b;
  __device__ void operator()(int64_t i, int64_t n, float* v) const {
    float more[8];
    a(i, n, v), b(i, n, more);
    for (int j = 0; j < 8; ++j) v[j] = v[j] + more[j];
  }
};

struct Fill {
  float value;
  __device__ void operator()(int64_t, int64_t, float* v) const {
    for (int j = 0; j < 8; ++j) v[j] = value;
  }
};

template <class X>
struct Affine {
  Read<X> x;
  Channels scale, shift;
  int64_t channels;
  __device__ void operator()(int64_t i, int64_t n, float* v) const {
    x(i, n, v);
    int64_t channel = i % channels;
    for (int j = 0; j < 8; ++j) {
      v[j] = v[j] * scale.at(channel) + shift.at(channel);
      channel = channel + 1 == channels ? 0 : channel + 1;
    }
  }
};

template <class X>
struct Guide {
  Read<X> cond, uncond;
  const float* scale;
  __device__ void operator()(int64_t i, int64_t n, float* v) const {
    float base[8];
    cond(i, n, v), uncond(i, n, base);
    for (int j = 0; j < 8; ++j) v[j] = base[j] + *scale * (v[j] - base[j]);
  }
};

// round((x + 1) / 2 255) of x clamped to [-1, 1]; halves go to even, NaN to 0.
template <class X>
__global__ void pixels_kernel(const X* x, int64_t n, uint8_t* y) {
  const int64_t i = 8 * (static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x);
  if (i >= n) return;
  float v[8];
  load8(x, i, n, aligned(x), v);
  uint32_t words[2] = {};
  for (int j = 0; j < 8; ++j) {
    v[j] = v[j] > -1.0f ? v[j] : -1.0f;
    v[j] = v[j] < 1.0f ? v[j] : 1.0f;
    words[j / 4] |= static_cast<uint32_t>(__float2int_rn((v[j] + 1.0f) * 0.5f * 255.0f)) << (j % 4 * 8);
  }
  if (i + 8 <= n && reinterpret_cast<uintptr_t>(y) % 8 == 0) {
    *reinterpret_cast<uint2*>(y + i) = make_uint2(words[0], words[1]);
    return;
  }
  for (int j = 0; j < 8; ++j)
    if (i + j < n) y[i + j] = static_cast<uint8_t>(words[j / 4] >> (j % 4 * 8));
}

}  // namespace

void silu(cudaStream_t s, const Tensor& x, const Tensor& y) {
  with_type(x.dtype(), [&]<class X>(X) { for_elements<X>(s, y, Silu<X>{Read<X>(x)}); });
}

void gated_gelu(cudaStream_t s, const Tensor& a, const Tensor& b, const Tensor& y) {
  with_type(a.dtype(), [&]<class X>(X) { for_elements<X>(s, y, GatedGelu<X>{Read<X>(a), Read<X>(b)}); });
}

void add(cudaStream_t s, const Tensor& into, const Tensor& x) {
  with_type(into.dtype(), [&]<class Y>(Y) {
    with_type(x.dtype(), [&]<class X>(X) { for_elements<Y>(s, into, Add<Y, X>{Read<Y>(into), Read<X>(x)}); });
  });
}

void cast(cudaStream_t s, const Tensor& x, const Tensor& y) {
  with_type(x.dtype(),
            [&]<class X>(X) { with_type(y.dtype(), [&]<class Y>(Y) { for_elements<Y>(s, y, Read<X>(x)); }); });
}

void fill(cudaStream_t s, const Tensor& x, float value) {
  with_type(x.dtype(), [&]<class X>(X) { for_elements<X>(s, x, Fill{value}); });
}

void affine(cudaStream_t s, const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& y) {
  with_type(x.dtype(), [&]<class X>(X) {
    with_type(y.dtype(), [&]<class Y>(Y) {
      for_elements<Y>(s, y, Affine<X>{Read<X>(x), Channels(scale), Channels(shift), x.dim(-1)});
    });
  });
}

void to_pixels(cudaStream_t s, const Tensor& x, const Tensor& y) {
  with_type(x.dtype(), [&]<class X>(X) {
    launch(pixels_kernel<X>, blocks(x.size(), 8 * threads), dim3(threads), s, pointer<const X>(x), x.size(),
           pointer<uint8_t>(y));
  });
}

void guide(cudaStream_t s, const Tensor& cond, const Tensor& uncond, const Tensor& scale, const Tensor& v) {
  with_type(cond.dtype(), [&]<class X>(X) {
    for_elements<X>(s, v, Guide<X>{Read<X>(cond), Read<X>(uncond), pointer<const float>(scale)});
  });
}

}  // namespace zoetrope::cuda
