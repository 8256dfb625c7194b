#include "models/wan/self_source.h"

#include <utility>

namespace zoetrope {

using attn::Projection;

namespace {

// Are q, k, v the three column ranges of one matrix [S, 3C']?
bool one_matrix(const HeadParts& to_q, const HeadParts& to_k, const HeadParts& to_v) {
  if (!to_q.one() || !to_k.one() || !to_v.one()) return false;
  const Heads &q = to_q.parts[0].to, &k = to_k.parts[0].to, &v = to_v.parts[0].to;
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

Heads WanSelfSource::project(Ctx& c, Projection which) const {
  const int64_t dim = geo.heads * geo.width, part = static_cast<int64_t>(which);
  const nn::Linear& all = weights_.qkv;
  const nn::Linear rows{all.w.rows(part * dim, (part + 1) * dim), all.b.rows(part * dim, (part + 1) * dim)};
  return as_heads(rows(c, x_), geo.width);  // [S, C']
}

const Tensor& WanSelfSource::norm(Projection which) const {
  return which == Projection::q ? weights_.norm_q : weights_.norm_k;
}

void WanSelfSource::rotate(Ctx& c, const std::vector<nn::TensorParallel::Normed>& parts) const {
  weights_.tp.norm_rope(c, parts, x_.dim(1), weights_.eps, &rope_);
}

Heads WanSelfSource::get(Ctx& c, Projection which) {
  const Heads x = project(c, which);
  if (which != Projection::v) rotate(c, {{x, norm(which), x}});
  tap(c, which, x);
  return x;
}

void WanSelfSource::put(Ctx& c, Projection which, const HeadParts& to) {
  const Heads x = project(c, which);
  if (which == Projection::v)
    copy_heads(c, x, to);
  else
    rotate(c, {{x, norm(which), to}});
  tap(c, which, to);
}

bool WanSelfSource::put_all(Ctx& c, const HeadParts& q, const HeadParts& k, const HeadParts& v) {
  const bool in_place = one_matrix(q, k, v);
  const Tensor all =
      in_place ? q.parts[0].to.buf : c.empty({geo.tokens, 3 * geo.heads * geo.width}, geo.dtype);  // [S, 3C']
  weights_.qkv.into(c, x_, all);
  const auto part = [&](int64_t i) { return as_heads(all, i * geo.heads * geo.width, geo.heads, geo.width); };
  rotate(c, {{part(0), weights_.norm_q, q}, {part(1), weights_.norm_k, k}});
  if (!in_place) copy_heads(c, part(2), v);
  tap(c, Projection::q, q), tap(c, Projection::k, k), tap(c, Projection::v, v);
  return true;
}

void WanSelfSource::tap(Ctx& c, Projection which, const HeadParts& x) const {
  if (!c.rank().tap) return;
  Scope scope(c.scratch());
  const Tensor dense = c.empty({geo.tokens, geo.heads, geo.width}, x.dtype());
  for (const auto& [from, first] : x.parts)
    copy_heads(c, from, slice_heads(as_heads(dense, geo.width), first, first + from.heads));
  c.tap(tap_ + std::string(1, "qkv"[static_cast<size_t>(which)]), dense);
}

}  // namespace zoetrope
