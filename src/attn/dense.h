// Attention on one device: every query sees every real key. No messages; scratch S' (N + 2M) D for the projections,
// none for operands that are ready.
#pragma once
#include "attn/attention.h"

namespace zoetrope::attn {

class Dense : public Attention {
 public:
  void reserve(const Geometry&) override {}
  Partial run(Ctx& c, Source& source) override;
};

}  // namespace zoetrope::attn
