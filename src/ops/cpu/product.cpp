#include "ops/cpu/product.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/vec.h"

namespace zoetrope {
namespace {

constexpr int64_t group_rows = 256;  // rows that share a packed panel of w
constexpr int64_t most_k = 512;      // a panel of 64 columns is then 128 KiB
constexpr int64_t enough_pieces = 16;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t to) { return ceil_div(a, to) * to; }

// panel[k][j] = w[j][k] for k < depth, j < columns; zero up to [padded depth][width].
template <class W>
ZOETROPE_CLONES void pack_panel(const W* w, int64_t stride, int64_t columns, int64_t depth, float* panel,
                                int64_t width) {
  constexpr int64_t block = 16;
  for (int64_t k = 0; k < depth; k += block) {
    const int64_t deep = std::min(block, depth - k);
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < deep; ++i) panel[(k + i) * width + j] = load(w[j * stride + k + i]);
  }
}

// What one piece of work computes: rows of one group, panels of one span of columns.
struct Piece {
  int64_t row, rows, n0, n1;
  int64_t tiles() const { return ceil_div(rows, tile_rows); }
};

class Worker {
 public:
  Worker(Tiles& tiles, const Tensor& w, const LoadRows& load, const StoreRows& store, const Piece& piece)
      : tiles_(tiles),
        w_(w),
        load_(load),
        store_(store),
        piece_(piece),
        n_(w.dim(0)),
        k_(w.size() / std::max<int64_t>(n_, 1)) {
    const int64_t blocks = std::max<int64_t>(1, ceil_div(k_, most_k));
    depth_ = std::max<int64_t>(16, round_up(ceil_div(k_, blocks), 16));
  }

  int64_t floats() const {
    return left_floats() + depth_ * panel_columns + piece_.tiles() * tile_rows * round_up(piece_.n1 - piece_.n0, 16) +
           64;
  }

  void run(Workspaces::Lease lease) {
    left_ = lease.floats(left_floats());
    panel_ = lease.floats(depth_ * panel_columns);
    sums_ = lease.floats(piece_.tiles() * tile_rows * round_up(piece_.n1 - piece_.n0, 16));
    for (int64_t k = 0; k < std::max<int64_t>(k_, 1); k += depth_) {
      load_left(k);
      for (int64_t n = piece_.n0; n < piece_.n1; n += panel_columns) multiply(n, k);
    }
    for (int64_t n = piece_.n0; n < piece_.n1; n += panel_columns) store_panel(n);
  }

 private:
  int64_t left_floats() const { return piece_.tiles() * tile_rows * depth_; }
  int64_t real_width(int64_t n) const { return std::min(panel_columns, n_ - n); }
  int64_t width(int64_t n) const { return round_up(real_width(n), 16); }
  // Panels lie behind each other, each [rows of the group, width].
  float* sums(int64_t n) const { return sums_ + piece_.tiles() * tile_rows * (n - piece_.n0); }

  void load_left(int64_t k) {
    const int64_t k1 = std::min(k_, k + depth_);
    if (k1 - k < depth_ || piece_.rows % tile_rows) std::fill_n(left_, left_floats(), 0.0f);
    for (int64_t row = 0; row < piece_.rows; row += tile_rows)
      load_(piece_.row + row, std::min(tile_rows, piece_.rows - row), k, k1, left_ + row * depth_, depth_);
  }

  void multiply(int64_t n, int64_t k) {
    const int64_t deep = std::min(depth_, k_ - k), wide = width(n);
    if (deep < depth_ || real_width(n) < wide) std::fill_n(panel_, depth_ * wide, 0.0f);
    with_type(w_.dtype(),
              [&]<class W>(W) { pack_panel(w_.data<W>() + n * k_ + k, k_, real_width(n), deep, panel_, wide); });
    TileProduct tile(tiles_, depth_, wide, k > 0);
    for (int64_t i = 0; i < piece_.tiles(); ++i)
      tile(left_ + i * tile_rows * depth_, panel_, sums(n) + i * tile_rows * wide);
  }

  void store_panel(int64_t n) const {
    for (int64_t row = 0; row < piece_.rows; row += tile_rows)
      store_(piece_.row + row, std::min(tile_rows, piece_.rows - row), n, real_width(n), sums(n) + row * width(n),
             width(n));
  }

  Tiles& tiles_;
  const Tensor& w_;
  const LoadRows& load_;
  const StoreRows& store_;
  Piece piece_;
  int64_t n_, k_, depth_;
  float *left_ = nullptr, *panel_ = nullptr, *sums_ = nullptr;
};

// Wide spans load the left operand less often, narrow ones give every thread something to do.
int64_t span_of(int64_t groups, int64_t n) {
  int64_t span = 8 * panel_columns;
  while (span > panel_columns && groups * ceil_div(n, span) < enough_pieces) span /= 2;
  return span;
}

}  // namespace

void product(Pool& pool, Tiles& tiles, Workspaces& workspaces, int64_t rows, const Tensor& w, const LoadRows& load,
             const StoreRows& store) {
  const int64_t n = w.dim(0);
  if (rows == 0 || n == 0) return;
  const int64_t groups = ceil_div(rows, group_rows), span = span_of(groups, n), spans = ceil_div(n, span);
  pool.for_each(groups * spans, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / spans * group_rows, n0 = i % spans * span;
      Worker worker(tiles, w, load, store, {row, std::min(group_rows, rows - row), n0, std::min(n, n0 + span)});
      worker.run(workspaces.take(worker.floats()));
    }
  });
}

}  // namespace zoetrope
