// softmax(scale q k^T) v without the scores in memory, after FlashAttention-3 (Shah et al. 2024, algorithms 1 and 2).
//
// A block a multiprocessor takes 128 queries of a head at a time: one thread of the first warpgroup fetches tiles of
// 192 keys and values, two warpgroups compute 64 queries each. While the tensor cores make the scores of tile j and add
// the values of tile j - 1, the scores of neither wait for anything: exponentials of one warpgroup run beside products
// of the other.
//
// fp32 scores, maxima and sums; a probability is rounded to bf16 where it multiplies, not where it is summed; one
// rounding of the result. A query's bits depend on its own row and the real keys alone: where the running maximum of
// all of a warp's rows stays, the factor that would be multiplied is 1 and is left out.
#include <cuda_bf16.h>

#include "ops/cuda/hopper.cuh"
#include "ops/cuda/hopper_attention.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

[[maybe_unused]] constexpr int width = 128;
[[maybe_unused]] constexpr float log2_e = 1.4426950408889634f;
constexpr int queries_a_tile = hopper_queries, keys_a_tile = hopper_keys, stages = 2;
constexpr int query_panel = queries_a_tile * 128, key_panel = keys_a_tile * 128;  // bytes of 64 columns
constexpr int query_tile = 2 * query_panel, key_tile = 2 * key_panel;
constexpr int group = 128, computing = 2;  // threads of a warpgroup; how many of them compute

struct Tiles {
  alignas(1024) unsigned char q[query_tile], k[stages][key_tile], v[stages][key_tile];
  hopper::Barrier q_full, q_empty, k_full[stages], k_empty[stages], v_full[stages], v_empty[stages];
};
constexpr int shared_bytes = sizeof(Tiles) + 1024;  // dynamic memory begins at 16 bytes, tiles at 1024

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ Tiles& tiles_of(unsigned char* raw) {
  const unsigned at = hopper::shared_address(raw);
  return *reinterpret_cast<Tiles*>(raw + ((at + 1023) / 1024 * 1024 - at));
}

__device__ int tiles_of_keys(int keys) { return (keys + keys_a_tile - 1) / keys_a_tile; }

// ---- the thread that fetches
template <int bytes>
__device__ void fetch_tile(unsigned char (&to)[bytes], const CUtensorMap& map, hopper::Barrier& full, int head,
                           int row) {
  hopper::expect(full, bytes);
  for (int half = 0; half < 2; ++half) hopper::fetch(to + half * (bytes / 2), map, full, 64 * half, head, row);
}

// What the blocks share out: tile after tile of a head's queries, head after head.
struct Work {
  int tiles, all;  // of a head; of all heads

  __device__ explicit Work(const HopperOperands& x)
      : tiles((x.queries + queries_a_tile - 1) / queries_a_tile), all(tiles * x.heads) {}
  __device__ int head(int i) const { return i / tiles; }
  __device__ int first(int i) const { return i % tiles * queries_a_tile; }
};

// All that this block will need, in that order; a tile of the ring is taken again when every warp has left it.
class Fetcher {
 public:
  __device__ Fetcher(Tiles& t, const HopperOperands& x) : t_(t), x_(x) {}

  __device__ void work(int head, int first) {
    const int key_head = head / (x_.heads / x_.key_heads), count = tiles_of_keys(x_.keys);
    if (done_ > 0) hopper::wait(t_.q_empty, (done_ - 1) & 1);
    fetch_tile(t_.q, x_.q, t_.q_full, head, first);
    for (int j = 0; j <= count; ++j) {  // values are needed one tile later than keys
      if (j < count) next(t_.k, x_.k, t_.k_full, t_.k_empty, key_head, j);
      if (j > 0) next(t_.v, x_.v, t_.v_full, t_.v_empty, key_head, j - 1);
    }
    ++done_, before_ += count;
  }

 private:
  __device__ void next(unsigned char (&ring)[stages][key_tile], const CUtensorMap& map, hopper::Barrier (&full)[stages],
                       hopper::Barrier (&empty)[stages], int head, int j) {
    const int n = before_ + j, stage = n % stages;
    if (n >= stages) hopper::wait(empty[stage], (n / stages - 1) & 1);
    fetch_tile(ring[stage], map, full[stage], head, j * keys_a_tile);
  }

  Tiles& t_;
  const HopperOperands& x_;
  int done_ = 0, before_ = 0;  // pieces of work, and tiles of keys of all of them
};

// ---- the warpgroups that compute
__device__ float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ unsigned pair(float low, float high) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

// Over the four threads that hold a row.
template <class F>
__device__ float over_row(float x, F f) {
  x = f(x, __shfl_xor_sync(~0u, x, 1));
  return f(x, __shfl_xor_sync(~0u, x, 2));
}

class Queries {  // 64 of them, by a warpgroup
 public:
  __device__ Queries(Tiles& t, int warpgroup, float scale, int keys)
      : t_(t), q_(hopper::shared_address(t.q) + warpgroup * 64 * 128), base2_(scale * log2_e), keys_(keys) {}

  __device__ void work() {
    const int count = tiles_of_keys(keys_);
    begin();
    begin_scores(0);
    hopper::products_wait<0>();
    leave_scores(0, count);
    soften(0);
    keep();
#pragma unroll 1
    for (int j = 1; j < count; ++j) {
      begin_scores(j);
      begin_values(j - 1);
      hopper::products_wait<1>();
      leave_scores(j, count);
      const bool same = soften(j);
      hopper::products_wait<0>();
      free(t_.v_empty[(before_ + j - 1) % stages]);
      if (!same)
#pragma unroll
        for (int i = 0; i < width / 2; ++i) out_[i] *= shrink_[i / 2 % 2];
      keep();
    }
    begin_values(count - 1);
    hopper::products_wait<0>();
    free(t_.v_empty[(before_ + count - 1) % stages]);
    ++done_, before_ += count;
  }

  // first: the warpgroup's; o, lse: those of the head.
  __device__ void write(int first, int queries, int64_t row_stride, float scale, __nv_bfloat16* o, float* lse) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float total = over_row(sum_[r], [](float a, float b) { return a + b; });
      const int row = first + warp() * 16 + lane() / 4 + 8 * r;
      if (row >= queries) continue;
      auto* to = reinterpret_cast<unsigned*>(o + row * row_stride) + lane() % 4;
      const float by = 1 / total;
#pragma unroll
      for (int j = 0; j < width / 8; ++j) to[4 * j] = pair(out_[4 * j + 2 * r] * by, out_[4 * j + 2 * r + 1] * by);
      if (lane() % 4 == 0) lse[row] = top_[r] * scale + logf(total);
    }
  }

 private:
  static constexpr int scores = keys_a_tile / 2;  // of a thread, see hopper.cuh

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) % group / 32; }

  // A warp knows of its own rows alone that their products are done.
  __device__ static void free(hopper::Barrier& empty) {
    if (lane() == 0) hopper::arrive(empty);
  }

  __device__ void begin() {
    for (float& x : out_) x = 0;
    for (int r = 0; r < 2; ++r) top_[r] = -INFINITY, sum_[r] = 0;
    hopper::wait(t_.q_full, done_ & 1);
  }

  __device__ void leave_scores(int j, int count) {
    free(t_.k_empty[(before_ + j) % stages]);
    if (j + 1 == count) free(t_.q_empty);
  }

  // Where tile j of a ring lies, once it is there.
  __device__ unsigned arrived(const unsigned char (&ring)[stages][key_tile], hopper::Barrier (&full)[stages], int j) {
    const int n = before_ + j;
    hopper::wait(full[n % stages], n / stages & 1);
    return hopper::shared_address(ring[n % stages]);
  }

  __device__ void begin_scores(int j) {
    const unsigned k = arrived(t_.k, t_.k_full, j);
    hopper::products_begin();
#pragma unroll
    for (int i = 0; i < width / 16; ++i) {
      const unsigned q = q_ + i / 4 * query_panel + i % 4 * 32;
      hopper::product(s_, hopper::operand(q, 0), hopper::operand(k + i / 4 * key_panel + i % 4 * 32, 0), i > 0);
    }
    hopper::products_issued();
  }

  __device__ void begin_values(int j) {
    const unsigned v = arrived(t_.v, t_.v_full, j);
    hopper::products_begin();
#pragma unroll
    for (int i = 0; i < keys_a_tile / 16; ++i) hopper::product(out_, p_[i], hopper::operand(v + i * 2048, key_panel));
    hopper::products_issued();
  }

  // Scores of tile j -> probabilities relative to the running maximum. true: no maximum of the warp's rows has grown.
  __device__ bool soften(int j) {
    if ((j + 1) * keys_a_tile > keys_)
#pragma unroll
      for (int i = 0; i < scores; ++i)
        if (j * keys_a_tile + i / 4 * 8 + lane() % 4 * 2 + i % 2 >= keys_) s_[i] = -INFINITY;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = s_[2 * r];
#pragma unroll
      for (int i = 2 * r; i < scores; i += 4) most = fmaxf(most, fmaxf(s_[i], s_[i + 1]));
      most = fmaxf(top_[r], over_row(most, [](float a, float b) { return fmaxf(a, b); }));
      shrink_[r] = exp2_of((top_[r] - most) * base2_);
      top_[r] = most;
      const float shift = most * base2_;
      float total = 0;
#pragma unroll
      for (int i = 2 * r; i < scores; i += 4) {
        s_[i] = exp2_of(fmaf(s_[i], base2_, -shift));
        s_[i + 1] = exp2_of(fmaf(s_[i + 1], base2_, -shift));
        total += s_[i] + s_[i + 1];
      }
      sum_[r] = fmaf(sum_[r], shrink_[r], total);
    }
    return !__any_sync(~0u, shrink_[0] != 1.0f || shrink_[1] != 1.0f);
  }

  // Sums of a product lie as the next product wants its left operand.
  __device__ void keep() {
#pragma unroll
    for (int i = 0; i < keys_a_tile / 16; ++i)
#pragma unroll
      for (int h = 0; h < 4; ++h) p_[i][h] = pair(s_[8 * i + 2 * h], s_[8 * i + 2 * h + 1]);
  }

  Tiles& t_;
  unsigned q_;
  float base2_;
  int keys_;
  float s_[scores], out_[width / 2];
  unsigned p_[keys_a_tile / 16][4];
  float top_[2], sum_[2], shrink_[2];
  int done_ = 0, before_ = 0;  // as the fetcher counts
};

#endif

__global__ void __launch_bounds__(group*(1 + computing), 1)
    attention_kernel(const __grid_constant__ HopperOperands x, float scale, __nv_bfloat16* o, float* lse) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char raw[];
  Tiles& t = tiles_of(raw);
  if (threadIdx.x == 0) {
    hopper::init(t.q_full, 1), hopper::init(t.q_empty, 4 * computing);
    for (int i = 0; i < stages; ++i) {
      hopper::init(t.k_full[i], 1), hopper::init(t.v_full[i], 1);
      hopper::init(t.k_empty[i], 4 * computing), hopper::init(t.v_empty[i], 4 * computing);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int role = static_cast<int>(threadIdx.x) / group, begin = static_cast<int>(blockIdx.x);
  const Work work(x);
  if (role == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x > 0) return;
    Fetcher fetcher(t, x);
    for (int i = begin; i < work.all; i += static_cast<int>(gridDim.x)) fetcher.work(work.head(i), work.first(i));
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  Queries queries(t, role - 1, scale, x.keys);
  for (int i = begin; i < work.all; i += static_cast<int>(gridDim.x)) {
    queries.work();
    const int head = work.head(i);
    queries.write(work.first(i) + (role - 1) * 64, x.queries, int64_t{x.heads} * width, scale, o + head * width,
                  lse + int64_t{head} * x.queries);
  }
#else
  (void)x, (void)scale, (void)o, (void)lse;
#endif
}

}  // namespace

bool has_hopper_code() { return ZOETROPE_HOPPER; }

void hopper_attention(cudaStream_t s, const HopperOperands& x, int multiprocessors, float scale, const Tensor& o,
                      const Tensor& lse) {
  check_launch(cudaFuncSetAttribute(attention_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  const int64_t work = int64_t{x.queries + queries_a_tile - 1} / queries_a_tile * x.heads;
  const dim3 grid(static_cast<unsigned>(work < multiprocessors ? work : multiprocessors));
  launch_shared(attention_kernel, grid, dim3(group * (1 + computing)), shared_bytes, s, x, scale,
                static_cast<__nv_bfloat16*>(o.raw()), static_cast<float*>(lse.raw()));
}

}  // namespace zoetrope::cuda
