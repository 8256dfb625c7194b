#include "attn/partial.h"

#include <limits>

#include "base/rounding.h"

namespace zoetrope::attn {
namespace {

constexpr int64_t alignment = 16;

// lse [n, S] as one "head" of `count` numbers a row: tokens [first, first + count).
Heads columns(const Tensor& lse, int64_t first, int64_t count) {
  return {lse, first, lse.dim(1), lse.dim(0), 1, count};
}

}  // namespace

int64_t Chunks::Size::output_bytes() const { return round_up(tokens * heads * width * bytes_of(dtype), alignment); }
int64_t Chunks::Size::chunk_bytes() const {
  return output_bytes() + round_up(heads * tokens * bytes_of(DType::f32), alignment);
}

Chunks::Chunks(const Slot& slot, const Size& size)
    : size_(size), message_(slot.view({size.ranks, size.chunk_bytes()}, DType::u8)) {}

Partial Chunks::at(int rank) const {
  auto* const from = static_cast<std::byte*>(message_.raw()) + rank * size_.chunk_bytes();
  return {Tensor(from, {size_.tokens, size_.heads, size_.width}, size_.dtype),
          Tensor(from + size_.output_bytes(), {size_.heads, size_.tokens}, DType::f32)};
}

void put(Ctx& c, const Partial& from, int64_t first, const Partial& chunk) {
  const int64_t tokens = chunk.o.dim(0), heads = from.o.dim(1), width = from.o.dim(2);
  copy_heads(c, slice(as_heads(from.o, width), first, first + tokens), slice_heads(as_heads(chunk.o, width), 0, heads));
  copy_heads(c, columns(from.lse, first, tokens), columns(chunk.lse.rows(0, heads), 0, tokens));
}

Merge::Merge(Ctx& c, const Geometry& geo)
    : dtype_(geo.dtype),
      sum_{c.empty({geo.tokens, geo.heads, geo.width}, DType::f32), c.empty({geo.heads, geo.tokens}, DType::f32)} {
  fill(c, sum_.o, 0);
  fill(c, sum_.lse, -std::numeric_limits<float>::infinity());
}

void Merge::add(Ctx& c, const Partial& part) {
  const Scope scope(c.scratch());
  merge_attention(c, sum_, dtype_ == DType::f32 ? part : Partial{cast(c, part.o, DType::f32), part.lse});
}

Partial Merge::result(Ctx& c) const { return dtype_ == DType::f32 ? sum_ : Partial{cast(c, sum_.o, dtype_), sum_.lse}; }

}  // namespace zoetrope::attn
