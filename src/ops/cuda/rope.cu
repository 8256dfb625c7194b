// Rotary embedding alone, and copies between heads in different layouts.
#include "ops/cuda/angles.cuh"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

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

void copy_heads(cudaStream_t s, const Heads& from, const Heads& to) {
  if (from.size() == 0) return;
  const int unit = unit_of(from, to);
  if (unit == 16) return copy_units<uint4>(s, from, to);
  if (unit == 4) return copy_units<uint32_t>(s, from, to);
  if (unit == 2) return copy_units<uint16_t>(s, from, to);
  copy_units<uint8_t>(s, from, to);
}

}  // namespace zoetrope::cuda
