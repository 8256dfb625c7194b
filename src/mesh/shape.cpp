#include "mesh/shape.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "core/most_ranks.h"

namespace zoetrope {
namespace {

void check_count(int ranks) {
  require(ranks >= 1, "ranks: ", ranks, " asked for, at least 1 is needed");
  require(ranks <= most_ranks, "ranks: ", ranks, " asked for, at most ", most_ranks, " make sense");
}

// All layouts of `ranks` whose degrees multiply to it, legal or not in other ways.
std::vector<MeshShape> factorisations(int ranks) {
  std::vector<MeshShape> all;
  const auto divides = [](int d, int n) { return n % d == 0; };
  for (const int cfg : {2, 1}) {
    if (!divides(cfg, ranks)) continue;
    for (int tp = 1; tp <= ranks / cfg; ++tp) {
      if (!divides(tp, ranks / cfg)) continue;
      const int sequence = ranks / cfg / tp;
      for (int cp = 1; cp <= sequence; ++cp) {
        if (!divides(cp, sequence)) continue;
        const int ulysses = sequence / cp;
        all.push_back({.cfg = cfg, .tp = tp, .ring = cp, .ulysses = ulysses});
        for (int rows = 1; cp > 1 && rows <= cp; ++rows)
          if (divides(rows, cp))
            all.push_back({.cfg = cfg, .tp = tp, .rows = rows, .cols = cp / rows, .ulysses = ulysses});
      }
    }
  }
  return all;
}

std::string vae_objection(const MeshShape& s) {
  const int half = s.world() / s.cfg;
  if (s.vae < 0) return cat("vae ", s.vae, ": a degree is 1 or more, or auto");
  if (s.vae > s.world()) return cat("vae ", s.vae, ": more than the ", s.world(), " ranks there are");
  if (s.vae > half && s.vae != s.world())
    return cat("vae ", s.vae, " straddles the CFG halves of ", half, " ranks: at most ", half, ", or all ", s.world());
  return "";
}

std::string head_objection(const MeshShape& s, const MeshHeads& h) {
  if (h.heads == 0) return "";
  const int64_t kv = h.kv_heads ? h.kv_heads : h.heads;
  if (h.heads % s.tp || kv % s.tp)
    return cat("tp ", s.tp, " does not divide ", h.heads, " heads and ", kv, " key heads");
  if (s.ulysses > h.heads / s.tp)
    return cat("ulysses ", s.ulysses, " is more than the ", h.heads / s.tp, " heads", s.tp > 1 ? " of a tp rank" : "");
  return "";
}

// At most `most` layouts in words.
std::string layouts(const std::vector<MeshShape>& shapes, size_t most) {
  std::string text;
  for (size_t i = 0; i < std::min(most, shapes.size()); ++i) text += cat(i ? ", " : "", text_of(shapes[i]));
  return text + (shapes.size() > most ? ", ..." : "");
}

}  // namespace

int MeshShape::vae_ranks() const {
  if (vae > 0) return vae;
  return world() <= 8 ? world() : std::min(8, world() / cfg);
}

int rank_of(const MeshShape& s, const MeshPlace& at) {
  return (((at.cfg * s.tp + at.tp) * s.r() + at.row) * s.c() + at.col) * s.ulysses + at.ulysses;
}

MeshPlace place_of(const MeshShape& s, int rank) {
  MeshPlace at;
  const auto take = [&rank](int degree) {
    const int index = rank % degree;
    rank /= degree;
    return index;
  };
  at.ulysses = take(s.ulysses), at.col = take(s.c()), at.row = take(s.r()), at.tp = take(s.tp), at.cfg = rank;
  return at;
}

int sequence_index(const MeshShape& s, const MeshPlace& at) {
  return (at.row * s.c() + at.col) * s.ulysses + at.ulysses;
}

const char* name(Axis axis) {
  constexpr const char* names[] = {"cfg", "tp", "row", "col", "ulysses", "sequence"};
  return names[static_cast<size_t>(axis)];
}

std::vector<int> group_of(const MeshShape& s, Axis axis, int rank) {
  const MeshPlace mine = place_of(s, rank);
  const auto same = [&](const MeshPlace& p) {
    const bool sequence = axis == Axis::sequence;
    return (p.cfg == mine.cfg || axis == Axis::cfg) && (p.tp == mine.tp || axis == Axis::tp) &&
           (p.row == mine.row || axis == Axis::col || sequence) &&
           (p.col == mine.col || axis == Axis::row || sequence) &&
           (p.ulysses == mine.ulysses || axis == Axis::ulysses || sequence);
  };
  std::vector<int> group;
  for (int other = 0; other < s.world(); ++other)
    if (same(place_of(s, other))) group.push_back(other);
  return group;
}

std::string text_of(const MeshShape& s) {
  std::string text = cat("cfg ", s.cfg);
  if (s.tp != 1) text += cat(" x tp ", s.tp);
  if (s.ring != 1) text += cat(" x ring ", s.ring);
  if (s.rows != 1 || s.cols != 1) text += cat(" x attn2d ", s.rows, "x", s.cols);
  if (s.ulysses != 1) text += cat(" x ulysses ", s.ulysses);
  return text;
}

std::string objection(const MeshShape& s, const MeshHeads& heads) {
  for (const auto& [axis, degree] : {std::pair("cfg", s.cfg),
                                     {"tp", s.tp},
                                     {"ring", s.ring},
                                     {"attn2d rows", s.rows},
                                     {"attn2d columns", s.cols},
                                     {"ulysses", s.ulysses}})
    if (degree < 1 || degree > 65536) return cat(axis, " ", degree, ": a degree is 1 or more");
  if (s.cfg > 2) return cat("cfg ", s.cfg, ": there are two predictions a step, so 1 or 2");
  if (s.ring > 1 && s.rows * s.cols > 1)
    return cat("ring ", s.ring, " and attn2d ", s.rows, "x", s.cols, " both cut the context: choose one");
  const std::string about_heads = head_objection(s, heads);
  return about_heads.empty() ? vae_objection(s) : about_heads;
}

std::vector<MeshShape> legal_meshes(int ranks, const MeshHeads& heads) {
  check_count(ranks);
  std::vector<MeshShape> legal = factorisations(ranks);
  std::erase_if(legal, [&](const MeshShape& s) { return !objection(s, heads).empty(); });
  std::ranges::stable_sort(legal, {}, [](const MeshShape& s) { return std::pair(s.cp() > 1, s.tp); });
  return legal;
}

void check(const MeshShape& s, int ranks, const MeshHeads& heads) {
  std::string why = objection(s, heads);
  if (why.empty() && s.world() == ranks) return;
  if (why.empty())
    why = cat(text_of(s), " = ", s.world(), " ranks, but ", ranks, ranks == 1 ? " was" : " were", " started");
  const auto others = legal_meshes(ranks, heads);
  fail(Code::invalid, why, "; layouts for ", ranks, ": ", others.empty() ? "none" : layouts(others, 6));
}

MeshShape default_mesh(int ranks, double guidance, const MeshHeads& heads, int ranks_per_node) {
  check_count(ranks);
  const int node = ranks_per_node > 0 ? ranks_per_node : ranks;
  MeshShape s;
  s.cfg = guidance > 1 && ranks % 2 == 0 ? 2 : 1;
  const int left = ranks / s.cfg;
  for (int u = 1; u <= left; ++u)
    if (left % u == 0 && node % u == 0 && (heads.heads == 0 || u <= heads.heads)) s.ulysses = u;
  const int rest = left / s.ulysses;
  for (int c = 1; c * c <= rest; ++c)
    if (rest % c == 0) s.cols = c, s.rows = rest / c;
  return s;
}

}  // namespace zoetrope
