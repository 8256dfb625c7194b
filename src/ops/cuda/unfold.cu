// The input of a convolution as a library wants it: padded, or unfolded into the rows of a product; and the weights of
// one around the corners of a small picture.
#include "ops/corner.h"
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"

namespace zoetrope::cuda {
namespace {

constexpr int threads = 256;

// x: [T, H, W, each units a pixel].
struct Picture {
  int64_t h, w, each;
  int top, left;

  // Where pixel (row, column) of the padded picture lies; -1: in the zeros.
  __device__ int64_t at(int64_t frame, int64_t row, int64_t column) const {
    row -= top, column -= left;
    if (row < 0 || row >= h || column < 0 || column >= w) return -1;
    return ((frame * h + row) * w + column) * each;
  }
};

template <class Unit>
__device__ inline Unit zero() {
  return Unit{};
}

// A row of the result a block in y, a frame in z: divisions of short numbers alone.
template <class Unit>
__global__ void pad_kernel(const Unit* x, Picture p, int64_t first, unsigned row_units, Unit* to) {
  const unsigned i = blockIdx.x * threads + threadIdx.x, each = static_cast<unsigned>(p.each);
  if (i >= row_units) return;
  const unsigned column = i / each, inside = i - column * each;
  const int64_t from = p.at(blockIdx.z, first + blockIdx.y, column);
  to[(static_cast<int64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * row_units + i] =
      from < 0 ? zero<Unit>() : x[from + inside];
}

struct Taps {
  int64_t rows, columns;  // of the output
  int kt, kh, kw, stride;
};

template <class Unit>
__global__ void unfold_kernel(const Unit* x, Picture p, Taps t, int64_t first, int64_t n, Unit* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= n) return;
  const int64_t taps = static_cast<int64_t>(t.kt) * t.kh * t.kw, inside = i % p.each, tap = i / p.each % taps;
  const int64_t pixel = first + i / (p.each * taps);
  const int64_t frame = pixel / (t.rows * t.columns) + tap / (t.kh * t.kw);
  const int64_t row = pixel / t.columns % t.rows * t.stride + tap / t.kw % t.kh;
  const int64_t column = pixel % t.columns * t.stride + tap % t.kw;
  const int64_t from = p.at(frame, row, column);
  to[i] = from < 0 ? zero<Unit>() : x[from + inside];
}

Picture picture(const Tensor& x, const Look& look, int64_t each) {
  return {x.dim(1), x.dim(2), each, look.top, look.left};
}

struct Corners {
  Corner of[2][2] = {{{0, 0}, {0, 1}}, {{1, 0}, {1, 1}}};  // side, row
};

// Element i of y [2, 2, O, 2, 2, inputs] from w [O, 3, 3, inputs].
template <class W, class Y>
__global__ void corner_kernel(const W* w, Corners corners, int outputs, int inputs, int n, Y* y) {
  const int i = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  const int inside = i % inputs, at = i / inputs % 4, o = i / (4 * inputs) % outputs, side = i / (4 * inputs) / outputs;
  const Corner rows = corners.of[side / 2][at / 2], columns = corners.of[side % 2][at % 2];
  float sum = 0;
  for (int r = rows.first; r < rows.end; ++r)
    for (int s = columns.first; s < columns.end; ++s) sum += widen(w[((o * 3 + r) * 3 + s) * inputs + inside]);
  narrow(y[i], sum);
}

// Calls f(Unit{}, units a pixel) with the widest unit that fits.
template <class F>
void with_unit(const Tensor& x, const void* to, F f) {
  const int64_t run = x.dim(3) * bytes_of(x.dtype());
  const int64_t every = reinterpret_cast<int64_t>(x.raw()) | reinterpret_cast<int64_t>(to) | run;
  if (every % 16 == 0) return f(uint4{}, run / 16);
  if (every % 4 == 0) return f(uint32_t{}, run / 4);
  f(uint16_t{}, run / 2);
}

}  // namespace

void pad_rows(cudaStream_t stream, const Tensor& x, const Look& look, int64_t row, int64_t rows, void* to) {
  const int64_t columns = x.dim(2) + look.left + look.right;
  with_unit(x, to, [&]<class Unit>(Unit, int64_t each) {
    dim3 grid = blocks(columns * each, threads);
    grid.y = static_cast<unsigned>(rows), grid.z = static_cast<unsigned>(x.dim(0));
    launch(pad_kernel<Unit>, grid, dim3(threads), stream, pointer<const Unit>(x), picture(x, look, each), row,
           static_cast<unsigned>(columns * each), static_cast<Unit*>(to));
  });
}

void corner_weights(cudaStream_t s, const Tensor& w, const Tensor& y) {
  with_type(w.dtype(), [&]<class W>(W) {
    with_type(y.dtype(), [&]<class Y>(Y) {
      launch(corner_kernel<W, Y>, blocks(y.size(), threads), dim3(threads), s, pointer<const W>(w), Corners{},
             static_cast<int>(w.dim(0)), static_cast<int>(w.dim(4)), static_cast<int>(y.size()), pointer<Y>(y));
    });
  });
}

void unfold(cudaStream_t stream, const Tensor& x, const Tensor& w, const Tensor& y, const Look& look, int64_t first,
            int64_t count, void* to) {
  const Taps taps{
      y.dim(1),   y.dim(2), static_cast<int>(w.dim(1)), static_cast<int>(w.dim(2)), static_cast<int>(w.dim(3)),
      look.stride};
  with_unit(x, to, [&]<class Unit>(Unit, int64_t each) {
    const int64_t n = count * w.dim(1) * w.dim(2) * w.dim(3) * each;
    launch(unfold_kernel<Unit>, blocks(n, threads), dim3(threads), stream, pointer<const Unit>(x),
           picture(x, look, each), taps, first, n, static_cast<Unit*>(to));
  });
}

}  // namespace zoetrope::cuda
