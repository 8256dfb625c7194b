#include "attn/dense.h"

#include "base/error.h"

namespace zoetrope::attn {

// Q, K and V are asked for as the column ranges of one matrix [S', (N + 2M) D]: a packed product can then write them in
// place, without a copy.
Partial Dense::run(Ctx& c, Source& source) {
  const Geometry& geo = source.geo;
  require(geo.real >= 0 && geo.real <= geo.tokens, "dense attention: ", geo.real, " real tokens of ", geo.tokens);
  const int64_t rows = geo.heads + 2 * geo.key_heads;
  const Tensor qkv = c.empty({geo.tokens, rows * geo.width}, geo.dtype);
  Heads q = as_heads(qkv, 0, geo.heads, geo.width);
  Heads k = as_heads(qkv, geo.heads * geo.width, geo.key_heads, geo.width);
  Heads v = as_heads(qkv, (geo.heads + geo.key_heads) * geo.width, geo.key_heads, geo.width);
  if (!source.packed(c, q, k, v)) v = source.v(c, &v), q = source.q(c, &q), k = source.k(c, &k);
  AttentionOptions options;
  options.keys = geo.real;
  return attention(c, q, k, v, options);
}

}  // namespace zoetrope::attn
