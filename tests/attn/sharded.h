// Self-attention of a whole sequence, and the same cut over rank threads: every rank gets its tokens of one set of
// random projections, the rest of its rows are NaN.
#pragma once
#include <limits>
#include <random>

#include "attn/dense.h"
#include "attn/strategy.h"
#include "mesh/shard.h"
#include "support/cpu_ctx.h"
#include "support/ranks.h"

namespace zoetrope::attn {

struct Problem {
  int64_t tokens = 0, heads = 0, key_heads = 0, width = 0;
  DType dtype = DType::f32;

  std::vector<float> values(char part) const {  // [tokens, heads or key heads, width]
    return random_values(tokens * (part == 'q' ? heads : key_heads) * width, static_cast<unsigned>(part), 2);
  }
  MeshHeads mesh_heads() const { return {heads, key_heads}; }
};

// Part `index` of `parts`. In a dry context there is nothing to fill.
struct Shard : Source {
  Shard(Ctx& c, const Problem& p, int parts, int index) {
    const TokenShard shard = shard_tokens(p.tokens, parts, index);
    geo = {p.heads, p.key_heads, p.width, shard.slot, shard.real, p.dtype, shard.first, p.tokens};
    q_ = fill(c, p, 'q'), k_ = fill(c, p, 'k'), v_ = fill(c, p, 'v');
  }

  Heads get(Ctx& c, Projection which) override {
    before(c);
    return own(which);
  }
  void put(Ctx& c, Projection which, const HeadParts& to) override {
    before(c);
    copy_heads(c, own(which), to);
  }
  bool put_all(Ctx& c, const HeadParts& q, const HeadParts& k, const HeadParts& v) override {
    if (can_pack) put(c, Projection::q, q), put(c, Projection::k, k), put(c, Projection::v, v);
    return can_pack;
  }

  bool can_pack = true;
  std::function<void(Ctx& c)> before = [](Ctx&) {};  // of each projection

 private:
  Tensor fill(Ctx& c, const Problem& p, char part) const {
    const int64_t heads = part == 'q' ? p.heads : p.key_heads, row = heads * p.width;
    const Tensor x = c.empty({geo.tokens, heads, p.width}, p.dtype, c.request());
    if (c.dry()) return x;
    const std::vector<float> all = p.values(part);
    std::vector<float> mine(static_cast<size_t>(x.size()), std::nanf(""));
    std::copy_n(all.begin() + geo.first * row, geo.real * row, mine.begin());
    if (p.dtype == DType::f32) c.upload(std::span<const float>(mine), x);
    if (p.dtype == DType::bf16) {
      std::vector<bf16> narrow(mine.size());
      std::ranges::transform(mine, narrow.begin(), [](float v) { return bf16(v); });
      c.upload(std::span<const bf16>(narrow), x);
    }
    return x;
  }
  Heads own(Projection which) const {
    return as_heads(which == Projection::q ? q_ : which == Projection::k ? k_ : v_, geo.width);
  }

  Tensor q_, k_, v_;
};

// Output [S, N, D] and LSE [S, N] of the real tokens.
struct Result {
  std::vector<float> o, lse;
};

// The real tokens of a partial result, appended at their place.
inline void place(const Partial& part, const Geometry& geo, Result& all) {
  const auto o = values_of(part.o), lse = values_of(part.lse);
  const int64_t row = geo.heads * geo.width;
  std::copy_n(o.begin(), geo.real * row, all.o.begin() + geo.first * row);
  for (int64_t s = 0; s < geo.real; ++s)
    for (int64_t n = 0; n < geo.heads; ++n)
      all.lse[static_cast<size_t>((geo.first + s) * geo.heads + n)] = lse[static_cast<size_t>(n * geo.tokens + s)];
}

inline Result empty_result(const Problem& p) {
  return {std::vector<float>(static_cast<size_t>(p.tokens * p.heads * p.width), std::nanf("")),
          std::vector<float>(static_cast<size_t>(p.tokens * p.heads), std::nanf(""))};
}

inline Result dense(const Problem& p) {
  CpuCtx cpu(1);
  Shard source(cpu.c, p, 1, 0);
  Result all = empty_result(p);
  place(Dense().run(cpu.c, source), source.geo, all);
  return all;
}

struct Case {
  MeshShape shape;
  Forms forms = {};
};

// Each of the cases, all of one number of ranks, by the same threads one after the other.
inline std::vector<Result> on_meshes(const Problem& p, const std::vector<Case>& cases) {
  std::vector<Result> all(cases.size(), empty_result(p));  // each rank writes its own tokens
  Ranks(cases.front().shape.world()).run([&](Ctx& c, Comm& world) {
    std::unique_ptr<Mesh> mesh;
    for (size_t i = 0; i < cases.size(); ++i) {
      const MeshShape& shape = cases[i].shape;
      const Scope request(c.request()), exchange(c.exchange()), scratch(c.scratch());
      if (!mesh || mesh->shape() != shape) mesh = std::make_unique<Mesh>(world, shape, p.mesh_heads());
      poison(c.exchange(), 1u << 18), poison(c.scratch(), 1u << 18);
      const auto attention = make_attention(c, *mesh, cases[i].forms);
      Shard source(c, p, shape.sequence(), mesh->sequence_index());
      attention->reserve(source.geo);
      place(attention->run(c, source), source.geo, all[i]);
    }
  });
  return all;
}

inline Result on_mesh(const Problem& p, const MeshShape& shape, const Forms& forms = {}) {
  return on_meshes(p, {{shape, forms}}).front();
}

// Meshes of so many ranks that only cut the sequence.
inline std::vector<MeshShape> sequence_meshes(int ranks, const MeshHeads& heads) {
  std::vector<MeshShape> shapes = legal_meshes(ranks, heads);
  std::erase_if(shapes, [](const MeshShape& s) { return s.cfg * s.tp > 1; });
  return shapes;
}

// All legal meshes of so many ranks that only cut the sequence, in all forms.
inline std::vector<Case> cases_of(int ranks, const MeshHeads& heads) {
  std::vector<Case> cases;
  for (const MeshShape& shape : sequence_meshes(ranks, heads))
    for (const Forms& forms : forms_of(shape)) cases.push_back({shape, forms});
  return cases;
}

inline std::string words_of(const MeshShape& shape, const Forms& forms) {
  constexpr const char* names[] = {"separate", "kv_packed", "packed"};
  return cat(text_of(shape), ", ", names[static_cast<size_t>(forms.ulysses)], forms.pipelined ? ", pipelined" : "");
}

inline void PrintTo(const Case& a, std::ostream* out) { *out << words_of(a.shape, a.forms); }

}  // namespace zoetrope::attn
