// Attention as a strategy sees it (design 3a): it pulls projections from a Source, in the order and to the places it
// likes, and returns output and LSE of the local tokens. A parallel strategy wraps another Attention.
// Axes: S' local tokens (layout padding last), N query heads, M key heads, D head width.
#pragma once
#include <algorithm>

#include "ops/ops.h"

namespace zoetrope::attn {

struct Geometry {
  int64_t heads = 0, key_heads = 0, width = 0;  // N, M, D
  int64_t tokens = 0, real = 0;                 // S', and how many of the keys are not padding: the first ones
  DType dtype = DType::f32;
  // The local tokens are [first, first + S') of a sequence that all ranks of a mesh share: `total` real ones, then
  // padding. So every rank knows the real length of every shard, without a message. Dense needs neither.
  int64_t first = 0, total = 0;

  int64_t real_in(int64_t from, int64_t n) const { return std::clamp<int64_t>(total - from, 0, n); }
};

enum class Projection : uint8_t { q, k, v };

// A layer's projections, made on demand on c's stream: q and k normed and rotated. Buffers come from c.scratch().
struct Source {
  Geometry geo;
  bool ready = false;  // q, k and v lie in buffers already: get costs nothing

  virtual ~Source() = default;
  virtual Heads get(Ctx& c, Projection which) = 0;                      // where the source likes
  virtual void put(Ctx& c, Projection which, const HeadParts& to) = 0;  // written there by who makes it
  // All three by one product, to these places; false: not here, ask one by one.
  virtual bool put_all(Ctx& c, const HeadParts& q, const HeadParts& k, const HeadParts& v) = 0;
};

// Only a layer's own tokens come this way. Keys that every rank holds (a prompt, an image, Cosmos3's second stream) are
// never given to a strategy: the layer attends them with its local queries in a second call and merges by LSE, which
// counts each once on every mesh.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual void reserve(const Geometry& geo) = 0;    // exchange slots and buffers, before any capture
  virtual Partial run(Ctx& c, Source& source) = 0;  // o [S', N, D], lse [N, S'], in c.scratch()
};

}  // namespace zoetrope::attn
