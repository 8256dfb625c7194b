// The norm of q and k, rotary embedding, and the way to where attention or its exchange wants them, in one pass. Rounds
// the norm's result to the output's type before it rotates, as the plain form does.
#include <algorithm>
#include <span>

#include "ops/cuda/angles.cuh"
#include "ops/cuda/rows.cuh"

namespace zoetrope::cuda {
namespace {

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

// Where the heads of a token go. Each is looked for in all places: there are as many as ranks in a group.
template <class Y>
struct Places {
  static constexpr int most = 64;

  int n = 0, width = 0;
  Y* start[most];
  int64_t row[most];
  int first[most], count[most];

  Places(std::span<const HeadPart> parts, int64_t width_) : width(static_cast<int>(width_)) {
    for (const auto& [to, first_head] : parts) {
      start[n] = pointer<Y>(to.buf) + to.at, row[n] = to.row;
      first[n] = static_cast<int>(first_head), count[n] = static_cast<int>(to.heads);
      ++n;
    }
  }
  bool whole(const RowShape& shape) const {
    bool all = width % 8 == 0;
    for (int p = 0; p < n; ++p) all = all && shape.whole(start[p], row[p]);
    return all;
  }
  // f(the address of a token's element i)
  template <class F>
  __device__ void each(int64_t token, int i, F f) const {
    const int head = i / width, d = i % width;
#pragma unroll 1
    for (int p = 0; p < n; ++p)
      if (head >= first[p] && head < first[p] + count[p])
        f(start[p] + token * row[p] + static_cast<int64_t>(head - first[p]) * width + d);
  }
};

// As rows_kernel, but the heads part.
template <class L, bool Whole, class X, class Y, class Op>
__global__ void __launch_bounds__(most_lanes)
    part_rows_kernel(const X* x, RowShape shape, Op op, const __grid_constant__ Places<Y> places) {
  const L lane(shape);
  float v[L::values];
  lane.load_all(x + shape.start(lane.row, shape.from_stride), v);
  op.statistics(lane, v);
  const int64_t token = static_cast<uint32_t>(lane.row) / static_cast<uint32_t>(shape.inner);
  const int before = static_cast<int>(lane.row - token * shape.inner) * shape.n;
#pragma unroll
  for (int c = 0; c < L::chunks; ++c) {
    if (!lane.has(c)) continue;
    const int i = lane.at(c);
    op.apply(lane, i, v + 8 * c);
    if constexpr (Whole)
      places.each(token, before + i, [&](Y* to) { store_vector(to, v + 8 * c); });
    else
      for (int j = 0; j < 8; ++j)
        if (i + j < lane.n) places.each(token, before + i + j, [&](Y* to) { narrow(*to, v[8 * c + j]); });
  }
}

template <class X, class Y, class Op>
void launch_parts(cudaStream_t s, const X* x, const RowShape& shape, const Op& op, const Places<Y>& places) {
  const bool whole = shape.whole(x, shape.from_stride) && places.whole(shape) && op.whole();
  with_lane(shape, whole, [&]<bool Wide, bool Whole>(Lane<Wide, Whole>*) {
    launch(part_rows_kernel<Lane<Wide, Whole>, Whole, X, Y, Op>, blocks(shape.rows, shape.rows_a_block()),
           dim3(static_cast<unsigned>(shape.block())), s, x, shape, op, places);
  });
}

}  // namespace

void norm_rope(cudaStream_t s, const Heads& x, const Tensor& w, float eps, const Tensor& sums, int64_t columns,
               const RopeGrid* grid, const HeadParts& out) {
  if (x.size() == 0) return;
  const bool together = w.size() == x.heads * x.width, fused = grid && grid->adjacent;
  RowShape shape(together ? x.tokens : x.tokens * x.heads, w.size());
  shape.inner = together ? 1 : static_cast<int>(x.heads), shape.from_stride = x.row;
  with_type(x.dtype(), [&]<class X>(X) {
    with_type(out.dtype(), [&]<class Y>(Y) {
      const X* from = pointer<const X>(x.buf) + x.at;
      const auto run = [&]<bool Steady>(std::bool_constant<Steady>) {
        const NormRope<Y, Steady> op{{Channels(w), Inverse(eps, sums, columns)},
                                     fused,
                                     static_cast<int>(x.width),
                                     shape.inner,
                                     fused ? Angles(*grid) : Angles()};
        const std::span<const HeadPart> parts = out.parts;
        if (out.one()) {
          const Heads& to = parts[0].to;
          shape.to_stride = to.row;
          return launch_rows(s, from, pointer<Y>(to.buf) + to.at, shape, op);
        }
        for (size_t p = 0; p < parts.size(); p += Places<Y>::most)
          launch_parts(s, from, shape, op,
                       Places<Y>(parts.subspan(p, std::min<size_t>(Places<Y>::most, parts.size() - p)), x.width));
      };
      if (x.width % 8 == 0 && 8 * shape.lanes % x.width == 0)
        run(std::true_type{});
      else
        run(std::false_type{});
    });
  });
  if (!grid || fused) return;
  for (const HeadPart& part : out.parts) rope(s, part.to, *grid);  // halves lie in different threads
}

}  // namespace zoetrope::cuda
