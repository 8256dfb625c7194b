// Folds one attention result into another over disjoint keys. A group of lanes per (token, head).
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

constexpr int threads = 256;

template <class X>
__global__ void merge_kernel(X* o, float* lse, const X* part, const float* part_lse, int64_t tokens, int64_t heads,
                             int width, int lanes) {
  const int64_t pair = (static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x) / lanes;  // token * heads + head
  const bool live = pair < tokens * heads;
  const int lane = threadIdx.x % lanes;
  const int64_t at = live ? pair % heads * tokens + pair / heads : 0;
  const float mine = lse[at], other = part_lse[at];
  __syncwarp();                             // all lanes have read what one of them is about to write
  if (!live || other == -INFINITY) return;  // whatever its o holds
  float a = 0, b = 1, total = other;
  if (mine != -INFINITY) {
    const float top = fmaxf(mine, other), ea = expf(mine - top), eb = expf(other - top);
    a = ea / (ea + eb), b = eb / (ea + eb), total = top + logf(ea + eb);
  }
  X* to = o + pair * width;
  const X* from = part + pair * width;
  for (int i = 8 * lane; i < width; i += 8 * lanes) {
    float v[8], w[8];
    load8(from, i, width, aligned(from), w);
    if (mine != -INFINITY) {
      load8(to, i, width, aligned(to), v);
      for (int j = 0; j < 8; ++j) w[j] = v[j] * a + w[j] * b;
    }
    store8(to, i, width, aligned(to), w);
  }
  if (lane == 0) lse[at] = total;
}

}  // namespace

void merge_attention(cudaStream_t s, const Tensor& o, const Tensor& lse, const Tensor& part, const Tensor& part_lse) {
  const int64_t tokens = o.dim(0), heads = o.dim(1);
  const int width = static_cast<int>(o.dim(2));
  int lanes = 1;
  while (lanes < 32 && lanes * 8 < width) lanes *= 2;
  with_type(o.dtype(), [&]<class X>(X) {
    launch(merge_kernel<X>, blocks(tokens * heads * lanes, threads), dim3(threads), s, pointer<X>(o),
           pointer<float>(lse), pointer<const X>(part), pointer<const float>(part_lse), tokens, heads, width, lanes);
  });
}

}  // namespace zoetrope::cuda
