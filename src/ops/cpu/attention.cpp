// attention: blocks of queries against tiles of keys with an online softmax (Milakov and Gimelshein 2018), so that no
// more than 16 x key_tile logits exist at a time. q k^T and p v are products of one fixed shape per head width; a
// query's bits depend on its own row and on the keys, not on which queries surround it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/rounding.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/transpose.h"
#include "ops/cpu/vec.h"

namespace zoetrope {
namespace {

constexpr int64_t key_tile = 128;
constexpr int64_t most_queries = 16 * tile_rows;  // that share a packed tile of keys
constexpr int64_t least_queries = 4 * tile_rows;
constexpr int64_t enough_pieces = 16;
constexpr float none = -std::numeric_limits<float>::infinity();

// One query's row of a tile of logits: scale, bias (may be null), only the first `seen` count. On return `logits` holds
// exp(logit - max), *max and *sum are brought up to date, and the factor for what was accumulated before is returned.
ZOETROPE_CLONES float soften(float* logits, float scale, const float* bias, int64_t seen, float* max, float* sum) {
  for (int64_t j = 0; j < seen; ++j) logits[j] = bias ? logits[j] * scale + bias[j] : logits[j] * scale;
  for (int64_t j = seen; j < key_tile; ++j) logits[j] = none;
  constexpr int64_t lanes = 32;
  float largest[lanes];
  for (int64_t lane = 0; lane < lanes; ++lane) largest[lane] = *max;
  for (int64_t j = 0; j < key_tile; j += lanes)
    for (int64_t lane = 0; lane < lanes; ++lane)
      largest[lane] = logits[j + lane] > largest[lane] ? logits[j + lane] : largest[lane];
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane)
      largest[lane] = largest[lane + width] > largest[lane] ? largest[lane + width] : largest[lane];
  const float top = largest[0];
  if (top == none) {  // nothing seen so far, or nothing but NaN, which has to come through
    for (int64_t j = 0; j < seen; ++j) *sum = logits[j] != logits[j] ? logits[j] : *sum;
    for (int64_t j = 0; j < key_tile; ++j) logits[j] = 0;
    return 1;
  }
  const float factor = exp_of(*max - top);
  *sum = *sum * factor + sum_of(key_tile, [&](int64_t j) { return logits[j] = exp_of(logits[j] - top); });
  *max = top;
  return factor;
}

ZOETROPE_CLONES void scale_row(float* row, int64_t n, float factor) {
  for (int64_t i = 0; i < n; ++i) row[i] *= factor;
}

template <class Y>
ZOETROPE_CLONES void store_row(const float* sums, float factor, int64_t n, Y* y) {
  for (int64_t i = 0; i < n; ++i) store(y[i], sums[i] * factor);
}

struct Problem {
  Heads q, k, v;
  AttentionOptions options;
  Partial out;

  // Keys that query i sees: real ones, and under a causal mask none beyond its own place from the end.
  int64_t seen(int64_t i) const {
    if (!options.causal) return options.keys;
    return std::clamp<int64_t>(i + 1 + k.tokens - q.tokens, 0, options.keys);
  }
  const float* bias(int64_t head, int64_t query, int64_t key) const {
    if (!options.relative_bias.defined()) return nullptr;
    return options.relative_bias.data<float>() + head * (q.tokens + k.tokens - 1) + key - query + q.tokens - 1;
  }
};

// One head, one block of queries.
class Block {
 public:
  Block(const Problem& problem, Tiles& tiles, int64_t head, int64_t first, int64_t count)
      : p_(problem),
        head_(head),
        first_(first),
        count_(count),
        width_(problem.q.width),
        depth_(round_up(width_, 16)),
        scores_(tiles, depth_, key_tile, false),
        values_(tiles, key_tile, depth_, true) {}

  int64_t floats() const { return (padded() + key_tile) * depth_ * 2 + tile_rows * key_tile + 2 * padded(); }

  void run(Workspaces::Lease lease) {
    queries_ = lease.floats(padded() * depth_), sums_ = lease.floats(padded() * depth_);
    keys_ = lease.floats(depth_ * key_tile), packed_values_ = lease.floats(key_tile * depth_);
    logits_ = lease.floats(tile_rows * key_tile);
    max_ = lease.floats(padded()), total_ = lease.floats(padded());
    load_queries();
    std::fill_n(sums_, padded() * depth_, 0.0f);
    std::fill_n(max_, padded(), none);
    std::fill_n(total_, padded(), 0.0f);
    const int64_t last = p_.seen(first_ + count_ - 1);
    for (int64_t key = 0; key < last; key += key_tile) attend(key);
    with_type(p_.q.dtype(), [&]<class Y>(Y) { finish<Y>(); });
  }

 private:
  int64_t key_head() const { return head_ / (p_.q.heads / p_.k.heads); }

  int64_t padded() const { return round_up(count_, tile_rows); }

  void load_queries() {
    std::fill_n(queries_, padded() * depth_, 0.0f);
    with_type(p_.q.dtype(), [&]<class X>(X) {
      for (int64_t i = 0; i < count_; ++i)
        widen(p_.q.token<X>(first_ + i) + head_ * width_, width_, queries_ + i * depth_);
    });
  }

  // Keys beyond the real ones may hold anything, so they are replaced by zeros.
  void load_keys(int64_t key, int64_t count) {
    if (count < key_tile || width_ < depth_) {
      std::fill_n(keys_, depth_ * key_tile, 0.0f);
      std::fill_n(packed_values_, key_tile * depth_, 0.0f);
    }
    with_type(p_.k.dtype(), [&]<class X>(X) {
      transpose(static_cast<const X*>(p_.k.token<X>(key)) + key_head() * width_, p_.k.row, count, width_, keys_,
                key_tile);
      for (int64_t j = 0; j < count; ++j)
        widen(p_.v.token<X>(key + j) + key_head() * width_, width_, packed_values_ + j * depth_);
    });
  }

  void attend(int64_t key) {
    load_keys(key, std::min(key_tile, p_.options.keys - key));
    for (int64_t i = 0; i < count_; i += tile_rows) {
      const int64_t rows = std::min(tile_rows, count_ - i);
      if (p_.seen(first_ + i + rows - 1) <= key) continue;
      scores_(queries_ + i * depth_, keys_, logits_);
      std::fill_n(logits_ + rows * key_tile, (tile_rows - rows) * key_tile, 0.0f);
      for (int64_t r = i; r < i + rows; ++r) {
        const int64_t seen = std::clamp<int64_t>(p_.seen(first_ + r) - key, 0, key_tile);
        const float factor = soften(logits_ + (r - i) * key_tile, p_.options.scale, p_.bias(head_, first_ + r, key),
                                    seen, max_ + r, total_ + r);
        if (factor != 1) scale_row(sums_ + r * depth_, depth_, factor);
      }
      values_(logits_, packed_values_, sums_ + i * depth_);
    }
  }

  template <class Y>
  void finish() const {
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t query = first_ + i;
      const float total = total_[i];
      store_row(sums_ + i * depth_, total == 0 ? 0.0f : 1 / total, width_,
                p_.out.o.data<Y>() + (query * p_.q.heads + head_) * width_);
      p_.out.lse.data<float>()[head_ * p_.q.tokens + query] = total == 0 ? none : max_[i] + std::log(total);
    }
  }

  const Problem& p_;
  int64_t head_, first_, count_, width_, depth_;
  TileProduct scores_, values_;
  float *queries_ = nullptr, *sums_ = nullptr, *keys_ = nullptr, *packed_values_ = nullptr, *logits_ = nullptr;
  float *max_ = nullptr, *total_ = nullptr;
};

// Large blocks pack keys less often, small ones give every thread something to do; results are the same.
int64_t queries_a_block(const Heads& q) {
  int64_t size = most_queries;
  while (size > least_queries && q.heads * ((q.tokens + size - 1) / size) < enough_pieces) size /= 2;
  return size;
}

// The weights of two parts with log-sums a and b; returns the log-sum of both.
float merge_weights(float a, float b, float* of_a, float* of_b) {
  const float top = std::max(a, b), ea = std::exp(a - top), eb = std::exp(b - top);
  *of_a = ea / (ea + eb), *of_b = eb / (ea + eb);
  return top + std::log(ea + eb);
}

template <class X>
ZOETROPE_CLONES void blend(X* into, float a, const X* part, float b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) store(into[i], load(into[i]) * a + load(part[i]) * b);
}

}  // namespace

void CpuBackend::attention(Ctx& c, Heads q, Heads k, Heads v, AttentionOptions options, Partial out) {
  const Problem problem{q, k, v, options, out};
  const int64_t size = queries_a_block(q), blocks = (q.tokens + size - 1) / size;
  c.pool().for_each(q.heads * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * size;
      Block block(problem, tiles_, i / blocks, first, std::min(size, q.tokens - first));
      block.run(workspaces_.take(block.floats()));
    }
  });
}

void CpuBackend::merge_attention(Ctx& c, Partial into, Partial part) {
  const int64_t tokens = into.o.dim(0), heads = into.o.dim(1), width = into.o.dim(2);
  c.pool().for_each(tokens, 64, [&](int64_t begin, int64_t end) {
    with_type(into.o.dtype(), [&]<class X>(X) {
      for (int64_t s = begin; s < end; ++s)
        for (int64_t n = 0; n < heads; ++n) {
          float& mine = into.lse.data<float>()[n * tokens + s];
          const float other = part.lse.data<float>()[n * tokens + s];
          if (other == none) continue;  // whatever its o holds
          X* o = into.o.data<X>() + (s * heads + n) * width;
          const X* from = part.o.data<X>() + (s * heads + n) * width;
          float a = 0, b = 1;
          if (mine == none)
            std::copy_n(from, width, o), mine = other;
          else
            mine = merge_weights(mine, other, &a, &b), blend(o, a, from, b, width);
        }
    });
  });
}

}  // namespace zoetrope
