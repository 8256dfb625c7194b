// What strategies do with sources: pull all three projections, and hand buffers that are filled to the attention they
// wrap.
#pragma once
#include "attn/attention.h"

namespace zoetrope::attn {

struct Operands {
  Heads q, k, v;  // [S', N, D], [K, M, D], [K, M, D]

  Heads& of(Projection which) { return which == Projection::q ? q : which == Projection::k ? k : v; }
};

// By one product where the source can: as the column ranges of one matrix [S', (N + 2M) D], which it writes in place.
Operands project(Ctx& c, Source& source);
void put_all(Ctx& c, Source& source, const HeadParts& q, const HeadParts& k, const HeadParts& v);  // to these places

// Operands that lie in buffers already. K may differ from S'; geo.real counts keys.
class Ready final : public Source {
 public:
  explicit Ready(const Geometry& geometry, const Operands& operands = {});

  Heads get(Ctx& c, Projection which) override;
  void put(Ctx& c, Projection which, const HeadParts& to) override;
  bool put_all(Ctx& c, const HeadParts& q, const HeadParts& k, const HeadParts& v) override;

  Operands at;
};

// Refuses a geometry whose place in the sequence and number of real tokens do not agree.
void require_place(const char* strategy, const Geometry& geo);

}  // namespace zoetrope::attn
