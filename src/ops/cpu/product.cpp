#include "ops/cpu/product.h"

#include <algorithm>
#include <optional>

#include "base/rounding.h"
#include "ops/cpu/transpose.h"
#include "ops/cpu/vec.h"

namespace zoetrope {
namespace {

constexpr int64_t group_rows = 256;        // rows that one piece of work takes
constexpr int64_t most_k = 512;            // a panel of 64 columns is then 128 KiB
constexpr int64_t most_packed = 16 << 20;  // floats of w that are packed ahead (64 MiB); of a larger w, pieces pack
constexpr int64_t enough_pieces = 16;

// w[N, K] in panels of at most 64 columns and blocks of K: [depth, width] each, transposed, fp32, padded with zeros.
class Panels {
 public:
  explicit Panels(const Tensor& w) : w_(w), n_(w.dim(0)), k_(w.dim(1)) {
    blocks_ = std::max<int64_t>(1, ceil_div(k_, most_k));
    depth_ = std::max<int64_t>(16, round_up(ceil_div(k_, blocks_), 16));
    blocks_ = std::max<int64_t>(1, ceil_div(k_, depth_));
  }

  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  int64_t depth() const { return depth_; }
  int64_t real_width(int64_t n) const { return std::min(panel_columns, n_ - n); }
  int64_t width(int64_t n) const { return round_up(real_width(n), 16); }
  int64_t floats() const { return round_up(n_, 16) * blocks_ * depth_; }

  void pack(int64_t n, int64_t k, float* to) const {
    const int64_t deep = std::min(depth_, k_ - k), wide = width(n);
    if (deep < depth_ || real_width(n) < wide) std::fill_n(to, depth_ * wide, 0.0f);
    with_type(w_.dtype(), [&]<class W>(W) {
      transpose(static_cast<const W*>(w_.data<W>()) + n * k_ + k, k_, real_width(n), deep, to, wide);
    });
  }

  void pack_all(const Workers& pool, float* to) {
    all_ = to;
    pool.for_each(ceil_div(n_, panel_columns) * blocks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / blocks_ * panel_columns, k = i % blocks_ * depth_;
        pack(n, k, to + place(n, k));
      }
    });
  }
  // The panel at (n, k): where it was packed ahead, or packed now into `own`.
  const float* get(int64_t n, int64_t k, float* own) const {
    if (all_) return all_ + place(n, k);
    pack(n, k, own);
    return own;
  }

 private:
  int64_t place(int64_t n, int64_t k) const { return n * blocks_ * depth_ + k * width(n); }

  const Tensor w_;
  int64_t n_, k_, blocks_, depth_;
  const float* all_ = nullptr;
};

// What one piece of work computes: rows of one group, columns [n0, n1) in whole panels.
struct Piece {
  int64_t row, rows, n0, n1;
  int64_t padded() const { return round_up(rows, tile_rows); }
};

class Worker {
 public:
  Worker(Tiles& tiles, const Panels& panels, const LoadRows& load, const StoreRows& store, const Piece& piece)
      : tiles_(tiles), panels_(panels), load_(load), store_(store), piece_(piece), depth_(panels.depth()) {}

  int64_t floats() const { return piece_.padded() * depth_ + depth_ * panel_columns + sums_floats() + 64; }

  void run(Workspaces::Lease lease) {
    left_ = lease.floats(piece_.padded() * depth_);
    panel_ = lease.floats(depth_ * panel_columns);
    sums_ = lease.floats(sums_floats());
    for (int64_t k = 0; k < std::max<int64_t>(panels_.k(), 1); k += depth_) {
      load_left(k);
      for (int64_t n = piece_.n0; n < piece_.n1; n += panel_columns) multiply(n, k);
    }
    for (int64_t n = piece_.n0; n < piece_.n1; n += panel_columns) store_panel(n);
  }

 private:
  int64_t sums_floats() const { return piece_.padded() * round_up(piece_.n1 - piece_.n0, 16); }
  // Panels lie behind each other, each [rows of the group, width].
  float* sums(int64_t n) const { return sums_ + piece_.padded() * (n - piece_.n0); }

  void load_left(int64_t k) {
    const int64_t k1 = std::min(panels_.k(), k + depth_);
    if (k1 - k < depth_ || piece_.rows < piece_.padded()) std::fill_n(left_, piece_.padded() * depth_, 0.0f);
    for (int64_t row = 0; row < piece_.rows; row += tile_rows)
      load_(piece_.row + row, std::min(tile_rows, piece_.rows - row), k, k1, left_ + row * depth_, depth_);
  }

  void multiply(int64_t n, int64_t k) {
    const int64_t wide = panels_.width(n);
    const float* panel = panels_.get(n, k, panel_);
    TileProduct tile(tiles_, depth_, wide, k > 0);
    for (int64_t row = 0; row < piece_.rows; row += tile_rows) tile(left_ + row * depth_, panel, sums(n) + row * wide);
  }

  void store_panel(int64_t n) const {
    const int64_t wide = panels_.width(n);
    for (int64_t row = 0; row < piece_.rows; row += tile_rows)
      store_(piece_.row + row, std::min(tile_rows, piece_.rows - row), n, panels_.real_width(n), sums(n) + row * wide,
             wide);
  }

  Tiles& tiles_;
  const Panels& panels_;
  const LoadRows& load_;
  const StoreRows& store_;
  Piece piece_;
  int64_t depth_;
  float *left_ = nullptr, *panel_ = nullptr, *sums_ = nullptr;
};

// Wide spans load the left operand less often, narrow ones give every thread something to do.
int64_t span_of(int64_t groups, int64_t n) {
  int64_t span = 8 * panel_columns;
  while (span > panel_columns && groups * ceil_div(n, span) < enough_pieces) span /= 2;
  return span;
}

}  // namespace

void product(const Workers& pool, Tiles& tiles, Workspaces& workspaces, int64_t rows, const Tensor& w,
             const LoadRows& load, const StoreRows& store) {
  Panels panels(w);
  const int64_t n = panels.n();
  if (rows == 0 || n == 0) return;
  const int64_t groups = ceil_div(rows, group_rows), span = span_of(groups, n), spans = ceil_div(n, span);
  std::optional<Workspaces::Lease> ahead;
  if (groups > 1 && panels.floats() <= most_packed)
    panels.pack_all(pool, ahead.emplace(workspaces, panels.floats()).floats(panels.floats()));
  pool.for_each(groups * spans, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / spans * group_rows, n0 = i % spans * span;
      Worker worker(tiles, panels, load, store, {row, std::min(group_rows, rows - row), n0, std::min(n, n0 + span)});
      worker.run(workspaces.take(worker.floats()));
    }
  });
}

}  // namespace zoetrope
