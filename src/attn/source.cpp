#include "attn/source.h"

#include "base/error.h"

namespace zoetrope::attn {
namespace {

Heads give(Ctx& c, const Heads& from, const Heads* want) {
  if (!want) return from;
  copy_heads(c, from, *want);
  return *want;
}

}  // namespace

Operands project(Ctx& c, Source& source) {
  const Geometry& geo = source.geo;
  if (!source.ready) {
    const int64_t columns = (geo.heads + 2 * geo.key_heads) * geo.width;
    const Tensor qkv = c.empty({geo.tokens, columns}, geo.dtype);
    const Heads q = as_heads(qkv, 0, geo.heads, geo.width);
    const Heads k = as_heads(qkv, geo.heads * geo.width, geo.key_heads, geo.width);
    const Heads v = as_heads(qkv, (geo.heads + geo.key_heads) * geo.width, geo.key_heads, geo.width);
    if (!source.packed(c, q, k, v)) source.v(c, &v), source.q(c, &q), source.k(c, &k);
    return {q, k, v};
  }
  return {source.q(c, nullptr), source.k(c, nullptr), source.v(c, nullptr)};
}

Ready::Ready(const Geometry& geometry, const Operands& operands) : at(operands) {
  geo = geometry;
  ready = true;
}

Heads Ready::q(Ctx& c, const Heads* want) { return give(c, at.q, want); }
Heads Ready::k(Ctx& c, const Heads* want) { return give(c, at.k, want); }
Heads Ready::v(Ctx& c, const Heads* want) { return give(c, at.v, want); }

bool Ready::packed(Ctx& c, const Heads& q, const Heads& k, const Heads& v) {
  give(c, at.q, &q), give(c, at.k, &k), give(c, at.v, &v);
  return true;
}

void require_place(const char* strategy, const Geometry& geo) {
  const int64_t real = geo.real_in(geo.first, geo.tokens);
  require(geo.first >= 0 && geo.real == real, strategy, ": tokens [", geo.first, ", ", geo.first + geo.tokens,
          ") of a sequence of ", geo.total, " hold ", real, " real ones, but ", geo.real, " were given");
}

}  // namespace zoetrope::attn
