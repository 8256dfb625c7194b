// Rotary embedding, alone and after the norm of q and k, and copies between heads in different layouts. The fused form
// rounds the norm's result to the output's type before it rotates, as the plain form does.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/floats.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vec.h"

namespace zoetrope {
namespace {

template <class X>
ZOETROPE_CLONES void rotate_adjacent(X* x, const float* cosine, const float* sine, int64_t pairs) {
  for (int64_t p = 0; p < pairs; ++p) {
    const float a = load(x[2 * p]), b = load(x[2 * p + 1]);
    store(x[2 * p], a * cosine[p] - b * sine[p]);
    store(x[2 * p + 1], a * sine[p] + b * cosine[p]);
  }
}

template <class X>
ZOETROPE_CLONES void rotate_halves(X* x, const float* cosine, const float* sine, int64_t pairs) {
  for (int64_t p = 0; p < pairs; ++p) {
    const float a = load(x[p]), b = load(x[p + pairs]);
    store(x[p], a * cosine[p] - b * sine[p]);
    store(x[p + pairs], a * sine[p] + b * cosine[p]);
  }
}

// The angles of one token at a time, gathered from the three axes' tables.
class Angles {
 public:
  Angles(const Rope& rope, int64_t width)
      : rope_(rope), cosine_(static_cast<size_t>(width / 2)), sine_(static_cast<size_t>(width / 2)) {}

  template <class X>
  void rotate(X* token, int64_t s, int64_t heads, int64_t width) {
    if (!find(rope_.offset + s)) return;
    for (int64_t n = 0; n < heads; ++n, token += width)
      if (rope_.style == RopeStyle::adjacent)
        rotate_adjacent(token, cosine_.data(), sine_.data(), width / 2);
      else
        rotate_halves(token, cosine_.data(), sine_.data(), width / 2);
  }

 private:
  bool find(int64_t place) {  // false: past the grid
    const int64_t h = rope_.axis[1].dim(0), w = rope_.axis[2].dim(0);
    if (place >= rope_.axis[0].dim(0) * h * w) return false;
    const std::array at{place / (h * w), place / w % h, place % w};
    size_t out = 0;
    for (size_t a = 0; a < 3; ++a) {
      const int64_t pairs = rope_.axis[a].dim(1);
      const float* table = rope_.axis[a].data<float>() + at[a] * pairs * 2;
      for (int64_t p = 0; p < pairs; ++p, ++out) cosine_[out] = table[2 * p], sine_[out] = table[2 * p + 1];
    }
    return true;
  }

  const Rope& rope_;
  std::vector<float> cosine_, sine_;
};

}  // namespace

void CpuBackend::rope(Ctx& c, Heads x, Rope rope) {
  with_type(x.dtype(), [&]<class X>(X) {
    c.pool().for_each(x.tokens, tokens_a_piece(x), [&](int64_t begin, int64_t end) {
      Angles angles(rope, x.width);
      for (int64_t s = begin; s < end; ++s) angles.rotate(x.token<X>(s), s, x.heads, x.width);
    });
  });
}

void CpuBackend::norm_rope(Ctx& c, Heads x, Tensor w, float eps, RowSquares whole, Rope rope, bool rotate,
                           HeadParts out) {
  const Floats weight(w, w.size(), 1.0f);
  const float* squares = whole.sums.defined() ? whole.sums.data<float>() : nullptr;
  const int64_t columns = x.heads * x.width, n = w.size();  // n: what is normed together
  with_type(x.dtype(), [&]<class X>(X) {
    with_type(out.dtype(), [&]<class Y>(Y) {
      c.pool().for_each(x.tokens, tokens_a_piece(x), [&](int64_t begin, int64_t end) {
        Angles angles(rope, x.width);
        std::vector<Y> token(out.one() ? 0 : static_cast<size_t>(columns));  // before its heads part
        for (int64_t s = begin; s < end; ++s) {
          const X* from = x.token<X>(s);
          Y* to = out.one() ? out.parts[0].to.token<Y>(s) : token.data();
          if (squares)
            rms_scale_row(from, weight.data(), n, squares[s], whole.columns, eps, to);
          else
            for (int64_t at = 0; at < columns; at += n) rms_norm_row(from + at, weight.data(), n, eps, to + at);
          if (rotate) angles.rotate(to, s, x.heads, x.width);
          if (!out.one())
            for (const auto& [part, first] : out.parts)
              std::copy_n(to + first * x.width, part.heads * x.width, part.template token<Y>(s));
        }
      });
    });
  });
}

void CpuBackend::copy_heads(Ctx& c, Heads from, Heads to) {
  const int64_t unit = bytes_of(from.dtype());
  const auto bytes = static_cast<size_t>(from.heads * from.width * unit);
  const auto token = [unit](const Heads& x, int64_t s) {
    return static_cast<std::byte*>(x.buf.raw()) + (x.at + s * x.row) * unit;
  };
  c.pool().for_each(from.tokens, tokens_a_piece(from), [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) std::memmove(token(to, s), token(from, s), bytes);
  });
}

}  // namespace zoetrope
