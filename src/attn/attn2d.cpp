#include "attn/attn2d.h"

#include <utility>

namespace zoetrope::attn {

Attention2d::Attention2d(Ctx& c, Comm& row, Comm& col, std::unique_ptr<Attention> inner, bool pipelined)
    : row_(row),
      col_(col),
      inner_(std::move(inner)),
      pipelined_(pipelined),
      q_(c.exchange()),
      kv_(c.exchange()),
      send_(c.exchange()),
      receive_(c.exchange()) {}

Chunks::Size Attention2d::output_size(const Geometry& geo) const {
  return {row_.size(), geo.tokens, geo.heads, geo.width, geo.dtype};
}

void Attention2d::reserve(const Geometry& geo) {
  q_.reserve(q_shape(geo).size() * bytes_of(geo.dtype));
  kv_.reserve(kv_shape(geo).size() * bytes_of(geo.dtype));
  if (row_.size() > 1) send_.reserve(output_size(geo).bytes()), receive_.reserve(output_size(geo).bytes());
  inner_->reserve(geo);
}

// Of chunks [from, to) of the kv slot: part i*C + j of the sequence each.
int64_t Attention2d::real_keys(const Geometry& geo, Part keys) const {
  int64_t real = 0;
  for (int i = keys.from; i < keys.to; ++i)
    real += geo.real_in(geo.first + (i - col_.rank()) * row_.size() * geo.tokens, geo.tokens);
  return real;
}

Partial Attention2d::run(Ctx& c, Source& source) {
  const Geometry& geo = source.geo;
  require_place("attn2d", geo);
  if (row_.size() * col_.size() == 1) return inner_->run(c, source);
  if (pipelined_) return pipelined(c, source);
  {
    Fork side(c);
    gather(c, side, source);
  }
  if (row_.size() == 1) return attend(c, geo, {0, 1}, {0, col_.size()});
  Merge sum(c, geo);
  attend_for_row(c, geo, {0, row_.size()});
  merge_row(c, geo, sum);
  return sum.result(c);
}

Partial Attention2d::pipelined(Ctx& c, Source& source) {
  const Geometry& geo = source.geo;
  const int i = col_.rank(), j = row_.rank();  // row i is this rank's place in its column
  Merge sum(c, geo);
  {
    Fork side(c);
    gather(c, side, source);
    attend_own(c, geo, {i, i + 1}, sum);
  }
  attend_own(c, geo, {0, i}, sum);
  attend_own(c, geo, {i + 1, col_.size()}, sum);
  attend_for_row(c, geo, {0, j});
  attend_for_row(c, geo, {j + 1, row_.size()});
  merge_row(c, geo, sum, j);
  return sum.result(c);
}

// Keys and values first: they travel while the queries are projected.
void Attention2d::gather(Ctx& c, Fork& side, Source& source) {
  const Geometry& geo = source.geo;
  const Scope scope(c.scratch());
  const auto own = [&](const Tensor& slot, const Comm& comm) {
    return slot.rows(comm.rank() * geo.tokens, (comm.rank() + 1) * geo.tokens);
  };
  const Tensor q = q_.view(q_shape(geo), geo.dtype), own_q = own(q, row_);
  const Tensor kv = kv_.view(kv_shape(geo), geo.dtype), own_kv = own(kv, col_);
  const Heads own_heads = as_heads(own_q, geo.width), own_pair = as_heads(own_kv, geo.width);
  const Heads k = slice_heads(own_pair, 0, geo.key_heads), v = slice_heads(own_pair, geo.key_heads, 2 * geo.key_heads);
  source.put(c, Projection::v, v), source.put(c, Projection::k, k);
  side.after_parent();
  col_.all_gather(side, own_kv, kv);
  source.put(c, Projection::q, own_heads);
  side.after_parent();
  row_.all_gather(side, own_q, q);
}

Partial Attention2d::attend(Ctx& c, const Geometry& geo, Part queries, Part keys) {
  const auto chunks = [&](const Tensor& slot, Part part) {
    return slice(as_heads(slot, geo.width), part.from * geo.tokens, part.to * geo.tokens);
  };
  const Heads q = chunks(q_.view(q_shape(geo), geo.dtype), queries);
  const Heads kv = chunks(kv_.view(kv_shape(geo), geo.dtype), keys);
  Geometry here = geo;
  here.tokens = q.tokens, here.real = real_keys(geo, keys);
  Ready local(here, {q, slice_heads(kv, 0, geo.key_heads), slice_heads(kv, geo.key_heads, 2 * geo.key_heads)});
  return inner_->run(c, local);
}

void Attention2d::attend_own(Ctx& c, const Geometry& geo, Part keys, Merge& sum) {
  if (keys.from == keys.to) return;
  const Scope scope(c.scratch());
  sum.add(c, attend(c, geo, {row_.rank(), row_.rank() + 1}, keys));
}

// Queries of these ranks of the row over all keys of the column, into their chunks.
void Attention2d::attend_for_row(Ctx& c, const Geometry& geo, Part queries) {
  if (queries.from == queries.to) return;
  const Scope scope(c.scratch());
  const Chunks sent(send_, output_size(geo));
  const Partial part = attend(c, geo, queries, {0, col_.size()});
  for (int p = queries.from; p < queries.to; ++p) put(c, part, (p - queries.from) * geo.tokens, sent.at(p));
}

void Attention2d::merge_row(Ctx& c, const Geometry& geo, Merge& sum, int skip) {
  if (row_.size() == 1) return;
  const Chunks sent(send_, output_size(geo)), got(receive_, output_size(geo));
  row_.all_to_all(c, sent.message(), got.message());
  for (int p = 0; p < row_.size(); ++p)
    if (p != skip) sum.add(c, got.at(p));
}

}  // namespace zoetrope::attn
