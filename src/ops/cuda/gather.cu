// Ops that move elements or look rows up. A thread moves one unit (16 bytes where all counts allow it) or one element.
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

constexpr int threads = 256;

__device__ inline int64_t thread_index() { return static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; }

// y[s] = table[ids[s]], rows of `each` units.
template <class Unit>
__global__ void embedding_kernel(const Unit* table, const int32_t* ids, int64_t each, int64_t n, Unit* y) {
  const int64_t i = thread_index();
  if (i < n) y[i] = table[ids[i / each] * each + i % each];
}

// In fp32 step by step (exponent, frequency, angle); the functions themselves in fp64, rounded.
__global__ void timestep_kernel(const float* t, int half, int64_t n, float* y) {
  const int64_t i = thread_index();
  if (i >= n) return;
  const int64_t r = i / half;
  const int k = static_cast<int>(i % half);
  const float exponent = -9.210340371976184f * static_cast<float>(k) / static_cast<float>(half);
  const float frequency = static_cast<float>(exp(static_cast<double>(exponent)));
  const double angle = static_cast<double>(t[r] * frequency);
  float* row = y + r * 2 * half;
  row[k] = static_cast<float>(cos(angle)), row[half + k] = static_cast<float>(sin(angle));
}

struct Patches {
  int64_t h, w, channels, ph, pw;  // of the image, of a patch

  // Where element i of the patches [S, ph pw C] lies in the image [T, H, W, C].
  __device__ int64_t image_index(int64_t i) const {
    const int64_t run = pw * channels, inside = i % run, row = i / run;  // row: (patch, i)
    const int64_t patch = row / ph, across = w / pw, down = h / ph;
    const int64_t x = patch % across, y = patch / across % down, t = patch / (across * down);
    return ((t * h + y * ph + row % ph) * w + x * pw) * channels + inside;
  }
};

template <class X, class Y>
__global__ void patchify_kernel(const X* image, Patches p, int64_t n, Y* y) {
  const int64_t i = thread_index();
  if (i < n) narrow(y[i], widen(image[p.image_index(i)]));
}

template <class X>
__global__ void unpatchify_kernel(const X* x, Patches p, int64_t n, float* image) {
  const int64_t i = thread_index();
  if (i < n) image[p.image_index(i)] = widen(x[i]);
}

// x [T, P, 2, each units] -> y [T, 2, P, each units]
template <class Unit>
__global__ void interleave_kernel(const Unit* x, int64_t pixels, int64_t each, int64_t n, Unit* y) {
  const int64_t i = thread_index();
  if (i >= n) return;
  const int64_t inside = i % each, odd = i / each % 2, pixel = i / (2 * each);
  y[((2 * (pixel / pixels) + odd) * pixels + pixel % pixels) * each + inside] = x[i];
}

// Calls f(Unit{}, units in `run` bytes) with the widest unit that fits.
template <class F>
void with_unit(const Tensor& x, const Tensor& y, int64_t run, F f) {
  const int64_t all = reinterpret_cast<int64_t>(x.raw()) | reinterpret_cast<int64_t>(y.raw()) | run;
  if (all % 16 == 0) return f(uint4{}, run / 16);
  if (all % 4 == 0) return f(uint32_t{}, run / 4);
  if (all % 2 == 0) return f(uint16_t{}, run / 2);
  f(uint8_t{}, run);
}

}  // namespace

void embedding(cudaStream_t s, const Tensor& table, const Tensor& ids, const Tensor& y) {
  with_unit(table, y, table.dim(1) * bytes_of(table.dtype()), [&]<class Unit>(Unit, int64_t each) {
    const int64_t n = ids.dim(0) * each;
    launch(embedding_kernel<Unit>, blocks(n, threads), dim3(threads), s, pointer<const Unit>(table),
           pointer<const int32_t>(ids), each, n, pointer<Unit>(y));
  });
}

void timestep_embed(cudaStream_t s, const Tensor& t, const Tensor& y) {
  const int64_t half = y.dim(1) / 2, n = t.dim(0) * half;
  launch(timestep_kernel, blocks(n, threads), dim3(threads), s, pointer<const float>(t), static_cast<int>(half), n,
         pointer<float>(y));
}

void patchify(cudaStream_t s, const Tensor& x, int64_t ph, int64_t pw, const Tensor& y) {
  const Patches p{x.dim(1), x.dim(2), x.dim(3), ph, pw};
  with_type(x.dtype(), [&]<class X>(X) {
    with_type(y.dtype(), [&]<class Y>(Y) {
      launch(patchify_kernel<X, Y>, blocks(y.size(), threads), dim3(threads), s, pointer<const X>(x), p, y.size(),
             pointer<Y>(y));
    });
  });
}

void unpatchify(cudaStream_t s, const Tensor& x, int64_t ph, int64_t pw, const Tensor& y) {
  const Patches p{y.dim(1), y.dim(2), y.dim(3), ph, pw};
  with_type(x.dtype(), [&]<class X>(X) {
    launch(unpatchify_kernel<X>, blocks(x.size(), threads), dim3(threads), s, pointer<const X>(x), p, x.size(),
           pointer<float>(y));
  });
}

void interleave_frames(cudaStream_t s, const Tensor& x, const Tensor& y) {
  with_unit(x, y, y.dim(3) * bytes_of(x.dtype()), [&]<class Unit>(Unit, int64_t each) {
    const int64_t n = x.bytes() / static_cast<int64_t>(sizeof(Unit));
    launch(interleave_kernel<Unit>, blocks(n, threads), dim3(threads), s, pointer<const Unit>(x), x.dim(1) * x.dim(2),
           each, n, pointer<Unit>(y));
  });
}

}  // namespace zoetrope::cuda
