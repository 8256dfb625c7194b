#include "models/wan/self_source.h"

#include <utility>

namespace zoetrope {
namespace {

// Are q, k, v the three column ranges of one matrix [S, 3C']?
bool one_matrix(const Heads& q, const Heads& k, const Heads& v) {
  const int64_t columns = q.heads * q.width;
  const bool same = q.buf.raw() == k.buf.raw() && q.buf.raw() == v.buf.raw() && q.row == k.row && q.row == v.row;
  return same && q.at == 0 && k.at == columns && v.at == 2 * columns && q.row == 3 * columns &&
         q.buf.shape() == Shape({q.tokens, 3 * columns});
}

}  // namespace

WanSelfSource::WanSelfSource(const Tensor& x, const Weights& weights, const Rope& rope, const attn::Geometry& geometry,
                             std::string tap)
    : x_(x), weights_(weights), rope_(rope), tap_(std::move(tap)) {
  geo = geometry;
}

Heads WanSelfSource::project(Ctx& c, int64_t part) const {
  const int64_t dim = geo.heads * geo.width;
  const nn::Linear& all = weights_.qkv;
  const nn::Linear rows{all.w.rows(part * dim, (part + 1) * dim), all.b.rows(part * dim, (part + 1) * dim)};
  return as_heads(rows(c, x_), geo.width);  // [S, C']
}

Heads WanSelfSource::rotated(Ctx& c, const Heads& from, const Tensor& norm, const Heads* want) const {
  const Heads to = want ? *want : from;
  rotate(c, {{from, norm, to}});
  return to;
}

void WanSelfSource::rotate(Ctx& c, const std::vector<nn::TensorParallel::Normed>& parts) const {
  weights_.tp.norm_rope(c, parts, x_.dim(1), weights_.eps, &rope_);
}

Heads WanSelfSource::q(Ctx& c, const Heads* want) {
  const Heads q = rotated(c, project(c, 0), weights_.norm_q, want);
  tap(c, "q", q);
  return q;
}

Heads WanSelfSource::k(Ctx& c, const Heads* want) {
  const Heads k = rotated(c, project(c, 1), weights_.norm_k, want);
  tap(c, "k", k);
  return k;
}

Heads WanSelfSource::v(Ctx& c, const Heads* want) {
  Heads v = project(c, 2);
  if (want) copy_heads(c, v, *want), v = *want;
  tap(c, "v", v);
  return v;
}

bool WanSelfSource::packed(Ctx& c, const Heads& q, const Heads& k, const Heads& v) {
  const bool in_place = one_matrix(q, k, v);
  const Tensor all = in_place ? q.buf : c.empty({geo.tokens, 3 * geo.heads * geo.width}, geo.dtype);  // [S, 3C']
  weights_.qkv.into(c, x_, all);
  const auto part = [&](int64_t i) { return as_heads(all, i * geo.heads * geo.width, geo.heads, geo.width); };
  rotate(c, {{part(0), weights_.norm_q, q}, {part(1), weights_.norm_k, k}});
  if (!in_place) copy_heads(c, part(2), v);
  tap(c, "q", q), tap(c, "k", k), tap(c, "v", v);
  return true;
}

void WanSelfSource::tap(Ctx& c, const char* name, const Heads& x) const {
  if (!c.rank().tap) return;
  Scope scope(c.scratch());
  const Tensor dense = c.empty({x.tokens, x.heads, x.width}, x.dtype());
  copy_heads(c, x, as_heads(dense, x.width));
  c.tap(tap_ + name, dense);
}

}  // namespace zoetrope
