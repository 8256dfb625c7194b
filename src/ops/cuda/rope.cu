// Rotary embedding, alone and after the norm of q and k, and copies between heads in different layouts. The fused form
// rounds the norm's result to the output's type before it rotates, as the plain form does.
#include "ops/cuda/kernels.h"
#include "ops/cuda/rows.cuh"

namespace zoetrope::cuda {
namespace {

// The three axes' tables, and where a token stands in them.
struct Angles {
  const float2* table[3] = {};
  int pairs[3] = {};
  uint32_t extent[3] = {};
  int64_t offset = 0;

  struct Place {
    const float2* row[3];
    bool inside;
  };

  Angles() = default;
  explicit Angles(const RopeGrid& grid) : offset(grid.offset) {
    for (int a = 0; a < 3; ++a) {
      table[a] = pointer<const float2>(grid.axis[a]);
      extent[a] = static_cast<uint32_t>(grid.axis[a].dim(0)), pairs[a] = static_cast<int>(grid.axis[a].dim(1));
    }
  }

  // A grid has less than 2^31 places, and places past it are not looked up.
  __device__ Place find(int64_t token) const {
    const uint32_t h = extent[1], w = extent[2];
    Place p{{}, offset + token < static_cast<int64_t>(extent[0]) * h * w};
    const auto place = static_cast<uint32_t>(offset + token);
    const uint32_t line = place / w, at[3] = {line / h, line % h, place % w};
    for (int a = 0; a < 3; ++a) p.row[a] = table[a] + static_cast<int64_t>(at[a]) * pairs[a];
    return p;
  }
  // (cos, sin) of a pair; the pairs of the axes follow each other.
  __device__ float2 at(const Place& place, int pair) const {
    if (pair < pairs[0]) return place.row[0][pair];
    pair -= pairs[0];
    return pair < pairs[1] ? place.row[1][pair] : place.row[2][pair - pairs[1]];
  }
};

__device__ inline void turn(float& a, float& b, float2 angle) {
  const float first = a * angle.x - b * angle.y, second = a * angle.y + b * angle.x;
  a = first, b = second;
}

// A thread turns one pair of one head; the pairs of a token lie side by side.
template <class X>
__global__ void rope_kernel(X* x, int64_t row, int64_t tokens, int heads, int width, Angles angles, bool adjacent) {
  const int half = width / 2;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
                each = static_cast<int64_t>(heads) * half;
  if (i >= tokens * each) return;
  const int64_t token = i / each;
  const int head = static_cast<int>(i % each / half), pair = static_cast<int>(i % half);
  const Angles::Place place = angles.find(token);
  if (!place.inside) return;
  X* at = x + token * row + static_cast<int64_t>(head) * width;
  X &first = at[adjacent ? 2 * pair : pair], &second = at[adjacent ? 2 * pair + 1 : pair + half];
  float a = widen(first), b = widen(second);
  turn(a, b, angles.at(place, pair));
  narrow(first, a), narrow(second, b);
}

// Norm of a row (all heads of a token, or one head), then adjacent pairs turned: both of a pair lie in one thread.
// Steady: all eights of a thread stand at the same place in a head, so that it looks its angles up once.
template <class Y, bool Steady>
struct NormRope : ScaledRow {
  bool rotate;
  int width, inner;  // inner: rows a token
  Angles angles;
  Angles::Place place = {};
  float2 angle[4] = {};

  template <class L>
  __device__ void statistics(const L& lane, const float* v) {
    if (rotate && lane.live) {
      place = angles.find(inner == 1 ? lane.row : static_cast<uint32_t>(lane.row) / static_cast<uint32_t>(inner));
      if (Steady) look_up(lane.at(0), lane.n);
    }
    ScaledRow::statistics(lane, v);
  }
  template <class L>
  __device__ void apply(const L& lane, int i, float* v) {
    scale(lane, i, v);
    if (!rotate || !place.inside) return;
    if (!Steady) look_up(i, lane.n);
    for (int j = 0; j < 4; ++j) {
      v[2 * j] = rounded(v[2 * j], Y{}), v[2 * j + 1] = rounded(v[2 * j + 1], Y{});
      turn(v[2 * j], v[2 * j + 1], angle[j]);
    }
  }
  // The angles of the four pairs from element i on, as far as they are the row's. Eights that are steady lie in one
  // head.
  __device__ void look_up(int i, int n) {
    if (!place.inside || i >= n) return;
    const int first = i % width / 2;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (Steady)
        angle[j] = angles.at(place, first + j);
      else if (i + 2 * j < n)
        angle[j] = angles.at(place, (i + 2 * j) % width / 2);
  }
};

template <class X>
__global__ void copy_heads_kernel(const X* from, int64_t from_row, X* to, int64_t to_row, int64_t tokens,
                                  int64_t each) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= tokens * each) return;
  to[i / each * to_row + i % each] = from[i / each * from_row + i % each];
}

// Few long rows: a row a block in y.
template <class X>
__global__ void copy_rows_kernel(const X* from, int64_t from_row, X* to, int64_t to_row, unsigned each) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < each) to[blockIdx.y * to_row + i] = from[blockIdx.y * from_row + i];
}

// The widest unit that divides all of these byte counts.
int unit_of(const Heads& from, const Heads& to) {
  const int64_t size = bytes_of(from.dtype());
  const auto start = [&](const Heads& x) { return reinterpret_cast<int64_t>(x.buf.raw()) + x.at * size; };
  const int64_t all = start(from) | start(to) | from.row * size | to.row * size | from.heads * from.width * size;
  return all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
}

template <class Unit>
void copy_units(cudaStream_t s, const Heads& from, const Heads& to) {
  const int64_t size = bytes_of(from.dtype()), unit = sizeof(Unit);
  const auto start = [&](const Heads& x) { return static_cast<std::byte*>(x.buf.raw()) + x.at * size; };
  const int64_t each = from.heads * from.width * size / unit;
  if (each >= 1024 && each < int64_t{1} << 31 && from.tokens <= 65535) {
    dim3 grid = blocks(each, 256);
    grid.y = static_cast<unsigned>(from.tokens);
    return launch(copy_rows_kernel<Unit>, grid, dim3(256), s, reinterpret_cast<const Unit*>(start(from)),
                  from.row * size / unit, reinterpret_cast<Unit*>(start(to)), to.row * size / unit,
                  static_cast<unsigned>(each));
  }
  launch(copy_heads_kernel<Unit>, blocks(from.tokens * each, 256), dim3(256), s,
         reinterpret_cast<const Unit*>(start(from)), from.row * size / unit, reinterpret_cast<Unit*>(start(to)),
         to.row * size / unit, from.tokens, each);
}

}  // namespace

void rope(cudaStream_t s, const Heads& x, const RopeGrid& grid) {
  with_type(x.dtype(), [&]<class X>(X) {
    launch(rope_kernel<X>, blocks(x.size() / 2, 256), dim3(256), s, pointer<X>(x.buf) + x.at, x.row, x.tokens,
           static_cast<int>(x.heads), static_cast<int>(x.width), Angles(grid), grid.adjacent);
  });
}

void norm_rope(cudaStream_t s, const Heads& x, const Tensor& w, float eps, const Tensor& sums, int64_t columns,
               const RopeGrid* grid, const Heads& out) {
  if (x.size() == 0) return;
  const bool together = w.size() == x.heads * x.width, fused = grid && grid->adjacent;
  RowShape shape(together ? x.tokens : x.tokens * x.heads, w.size());
  shape.inner = together ? 1 : static_cast<int>(x.heads), shape.from_stride = x.row, shape.to_stride = out.row;
  with_type(x.dtype(), [&]<class X>(X) {
    with_type(out.dtype(), [&]<class Y>(Y) {
      const auto run = [&]<bool Steady>(std::bool_constant<Steady>) {
        launch_rows(s, pointer<const X>(x.buf) + x.at, pointer<Y>(out.buf) + out.at, shape,
                    NormRope<Y, Steady>{{Channels(w), Inverse(eps, sums, columns)},
                                        fused,
                                        static_cast<int>(x.width),
                                        shape.inner,
                                        fused ? Angles(*grid) : Angles()});
      };
      if (x.width % 8 == 0 && 8 * shape.lanes % x.width == 0)
        run(std::true_type{});
      else
        run(std::false_type{});
    });
  });
  if (grid && !fused) rope(s, out, *grid);  // halves lie in different threads
}

void copy_heads(cudaStream_t s, const Heads& from, const Heads& to) {
  if (from.size() == 0) return;
  const int unit = unit_of(from, to);
  if (unit == 16) return copy_units<uint4>(s, from, to);
  if (unit == 4) return copy_units<uint32_t>(s, from, to);
  if (unit == 2) return copy_units<uint16_t>(s, from, to);
  copy_units<uint8_t>(s, from, to);
}

}  // namespace zoetrope::cuda
