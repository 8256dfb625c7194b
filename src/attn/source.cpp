#include "attn/source.h"

#include "base/error.h"

namespace zoetrope::attn {
Operands project(Ctx& c, Source& source) {
  const Geometry& geo = source.geo;
  if (!source.ready) {
    const int64_t columns = (geo.heads + 2 * geo.key_heads) * geo.width;
    const Tensor qkv = c.empty({geo.tokens, columns}, geo.dtype);
    const Heads q = as_heads(qkv, 0, geo.heads, geo.width);
    const Heads k = as_heads(qkv, geo.heads * geo.width, geo.key_heads, geo.width);
    const Heads v = as_heads(qkv, (geo.heads + geo.key_heads) * geo.width, geo.key_heads, geo.width);
    put_all(c, source, q, k, v);
    return {q, k, v};
  }
  return {source.get(c, Projection::q), source.get(c, Projection::k), source.get(c, Projection::v)};
}

void put_all(Ctx& c, Source& source, const HeadParts& q, const HeadParts& k, const HeadParts& v) {
  if (source.put_all(c, q, k, v)) return;
  source.put(c, Projection::v, v), source.put(c, Projection::q, q), source.put(c, Projection::k, k);
}

Ready::Ready(const Geometry& geometry, const Operands& operands) : at(operands) {
  geo = geometry;
  ready = true;
}

Heads Ready::get(Ctx&, Projection which) { return at.of(which); }
void Ready::put(Ctx& c, Projection which, const HeadParts& to) { copy_heads(c, at.of(which), to); }

bool Ready::put_all(Ctx& c, const HeadParts& q, const HeadParts& k, const HeadParts& v) {
  copy_heads(c, at.q, q), copy_heads(c, at.k, k), copy_heads(c, at.v, v);
  return true;
}

void require_place(const char* strategy, const Geometry& geo) {
  const int64_t real = geo.real_in(geo.first, geo.tokens);
  require(geo.first >= 0 && geo.real == real, strategy, ": tokens [", geo.first, ", ", geo.first + geo.tokens,
          ") of a sequence of ", geo.total, " hold ", real, " real ones, but ", geo.real, " were given");
}

}  // namespace zoetrope::attn
