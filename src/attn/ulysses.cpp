#include "attn/ulysses.h"

#include <algorithm>
#include <utility>

namespace zoetrope::attn {

std::vector<std::vector<Projection>> Ulysses::messages(UlyssesForm form) {
  if (form == UlyssesForm::packed) return {{Projection::q, Projection::k, Projection::v}};
  if (form == UlyssesForm::kv_packed) return {{Projection::q}, {Projection::k, Projection::v}};
  return {{Projection::v}, {Projection::q}, {Projection::k}};
}

Ulysses::Ulysses(Ctx& c, Comm& group, std::unique_ptr<Attention> inner, UlyssesForm form)
    : group_(group), inner_(std::move(inner)) {
  for (auto& parts : messages(form)) lanes_.push_back({std::move(parts), Slot(c.exchange()), Slot(c.exchange())});
  for (const Lane& lane : lanes_)
    if (std::ranges::count(lane.parts, Projection::q)) back_ = &lane;
}

HeadSpread Ulysses::spread(const Geometry& geo) const { return spread_heads(geo.heads, geo.key_heads, group_.size()); }

Span Ulysses::share(const HeadShare& of, Projection part) {
  return part == Projection::q ? Span{of.q_first, of.q_count} : Span{of.kv_first, of.kv_count};
}

int64_t Ulysses::heads_a_token(const Lane& lane, const HeadSpread& spread) {
  int64_t heads = 0;
  for (const Projection part : lane.parts) heads += part == Projection::q ? spread.q_slot : spread.kv_slot;
  return heads;
}

Geometry Ulysses::gathered(const Geometry& geo) const {
  const HeadShare own = spread(geo).ranks[static_cast<size_t>(group_.rank())];
  Geometry all = geo;
  all.heads = own.q_count, all.key_heads = own.kv_count;
  all.tokens = geo.tokens * group_.size();
  all.first = geo.first - geo.tokens * group_.rank();
  all.real = all.real_in(all.first, all.tokens);
  return all;
}

Chunks::Size Ulysses::output_size(const Geometry& geo) const {
  return {group_.size(), geo.tokens, spread(geo).q_slot, geo.width, geo.dtype};
}

void Ulysses::reserve(const Geometry& geo) {
  if (group_.size() == 1) return inner_->reserve(geo);
  for (Lane& lane : lanes_) {
    const int64_t token = heads_a_token(lane, spread(geo)) * geo.width * bytes_of(geo.dtype);
    const int64_t bytes = group_.size() * geo.tokens * token;
    const int64_t needed = &lane == back_ ? std::max(bytes, output_size(geo).bytes()) : bytes;
    lane.send.reserve(needed), lane.receive.reserve(needed);
  }
  Geometry all = gathered(geo);  // with the most heads that a rank has: slots are equally large on all
  all.heads = spread(geo).q_slot, all.key_heads = spread(geo).kv_slot;
  inner_->reserve(all);
}

Partial Ulysses::run(Ctx& c, Source& source) {
  if (group_.size() == 1) return inner_->run(c, source);
  const Geometry& geo = source.geo;
  require_place("ulysses", geo);
  Ready all(gathered(geo));
  const Partial out{c.empty({geo.tokens, geo.heads, geo.width}, geo.dtype),
                    c.empty({geo.heads, geo.tokens}, DType::f32)};
  {
    Fork side(c);
    for (const Lane& lane : lanes_) send(c, side, source, lane, all.at);
  }
  const Scope scope(c.scratch());
  send_back(c, inner_->run(c, all), geo, out);
  return out;
}

// Rank p's heads of a part, in chunk p of a message: columns[P S', slot, D].
HeadParts Ulysses::places(const HeadSpread& heads, Projection part, const Heads& columns) const {
  const int64_t tokens = columns.tokens / group_.size();
  std::vector<HeadPart> all;
  for (int p = 0; p < group_.size(); ++p) {
    const Span theirs = share(heads.ranks[static_cast<size_t>(p)], part);
    const Heads chunk = slice(columns, p * tokens, (p + 1) * tokens);
    all.push_back({slice_heads(chunk, 0, theirs.count), theirs.first});
  }
  return all;
}

// Has the parts of one message made where they are sent from, and sends it while c goes on.
void Ulysses::send(Ctx& c, Fork& side, Source& source, const Lane& lane, Operands& received) {
  const Geometry& geo = source.geo;
  const HeadSpread heads = spread(geo);
  const Shape shape{group_.size() * geo.tokens, heads_a_token(lane, heads), geo.width};  // [P S', H, D]
  const Tensor sent = lane.send.view(shape, geo.dtype), got = lane.receive.view(shape, geo.dtype);
  std::vector<HeadParts> to;
  int64_t column = 0;
  for (const Projection part : lane.parts) {
    const int64_t slot = part == Projection::q ? heads.q_slot : heads.kv_slot;
    const auto columns = [&](const Tensor& of) { return slice_heads(as_heads(of, geo.width), column, column + slot); };
    to.push_back(places(heads, part, columns(sent)));
    const int64_t mine = share(heads.ranks[static_cast<size_t>(group_.rank())], part).count;
    received.of(part) = slice_heads(columns(got), 0, mine);
    column += slot;
  }
  {
    const Scope scope(c.scratch());
    if (to.size() == 3)
      put_all(c, source, to[0], to[1], to[2]);
    else
      for (size_t i = 0; i < to.size(); ++i) source.put(c, lane.parts[i], to[i]);
  }
  side.after_parent();
  group_.all_to_all(side, sent, got);
}

// mine: all tokens of this rank's heads -> out: the local tokens of all heads.
void Ulysses::send_back(Ctx& c, const Partial& mine, const Geometry& geo, const Partial& out) {
  const HeadSpread heads = spread(geo);
  const Chunks sent(back_->send, output_size(geo)), got(back_->receive, output_size(geo));
  for (int p = 0; p < group_.size(); ++p) put(c, mine, p * geo.tokens, sent.at(p));
  group_.all_to_all(c, sent.message(), got.message());
  for (int p = 0; p < group_.size(); ++p) {
    const Span theirs = share(heads.ranks[static_cast<size_t>(p)], Projection::q);
    const Partial chunk = got.at(p);
    copy_heads(c, slice_heads(as_heads(chunk.o, geo.width), 0, theirs.count),
               slice_heads(as_heads(out.o, geo.width), theirs.first, theirs.first + theirs.count));
    copy(c, chunk.lse.rows(0, theirs.count), out.lse.rows(theirs.first, theirs.first + theirs.count));
  }
}

}  // namespace zoetrope::attn
