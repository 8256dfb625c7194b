#include "attn/dense.h"

#include "attn/source.h"

namespace zoetrope::attn {

Partial Dense::run(Ctx& c, Source& source) {
  const Operands x = project(c, source);
  AttentionOptions options;
  options.keys = source.geo.real;
  return attention(c, x.q, x.k, x.v, options);
}

}  // namespace zoetrope::attn
