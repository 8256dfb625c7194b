// A toy transformer and its velocity: on one rank, on every rank of a mesh, and what it sends.
#pragma once
#include <map>

#include "attn/sharded.h"
#include "comm/dry/world.h"
#include "core/dry_rank.h"
#include "models/wan/transformer.h"
#include "nn/random.h"

namespace zoetrope {

using attn::Case;

struct Toy {
  Shape latents{3, 6, 10, 4};  // 45 tokens
  DType dtype = DType::f32;
  WanConfig config{.layers = 2,
                   .heads = 24,
                   .width = 6,
                   .in_channels = 4,
                   .out_channels = 4,
                   .text_dim = 16,
                   .time_dim = 16,
                   .ffn_dim = 40,
                   .max_positions = 32};

  WanTransformer model(Ctx& c, const Mesh* mesh, nn::Parameters& weights, const attn::Forms& forms = {}) const {
    return {c, config, weights, dtype, "transformer", mesh, mesh ? attn::make_attention(c, *mesh, forms) : nullptr};
  }
  MeshHeads heads() const { return {config.heads, config.heads}; }
  int64_t tokens() const { return config.tokens(latents[0], latents[1], latents[2]); }

  Tensor context(Ctx& c) const { return input(c, {WanConfig::text_rows, config.text_dim}, 1); }
  Tensor noise(Ctx& c) const { return input(c, latents, 2); }

  // The second of two steps. `mesh` null: one rank. The log has what forward sends, without the prompt's share.
  Tensor forward(Ctx& c, const Mesh* mesh, const attn::Forms& forms, std::vector<Record>* log) const {
    nn::Random weights(7);
    const WanTransformer model = this->model(c, mesh, weights, forms);
    const StepTable steps = model.steps(c, std::vector<float>{900, 400});
    const Text text = model.encode_text(c, context(c), 9);
    if (!c.dry()) poison(c.scratch(), 1u << 20);
    if (mesh) mesh->world().session().log = log;
    const Tensor velocity = model.forward(c, noise(c), steps, 1, text);
    if (mesh) mesh->world().session().log = nullptr;
    return velocity;
  }

 private:
  static Tensor input(Ctx& c, const Shape& shape, unsigned seed) {
    const Tensor x = c.empty(shape, DType::f32, c.request());
    if (!c.dry()) c.upload(std::span<const float>(random_values(x.size(), seed, 2)), x);
    return x;
  }
};

inline std::vector<float> on_one_rank(const Toy& toy) {
  CpuCtx cpu(1);
  return values_of(toy.forward(cpu.c, nullptr, {}, nullptr));
}

struct RankRun {
  std::vector<float> velocity;
  std::vector<Record> log;
};
using MeshRun = std::vector<RankRun>;  // by world rank

// Each of the cases, all of one number of ranks, by the same threads one after the other.
inline std::vector<MeshRun> on_meshes(const Toy& toy, const std::vector<Case>& cases) {
  const int ranks = cases.front().shape.world();
  std::vector<MeshRun> all(cases.size(), MeshRun(static_cast<size_t>(ranks)));
  Ranks(ranks).run([&](Ctx& c, Comm& world) {
    for (size_t i = 0; i < cases.size(); ++i) {
      const Scope request(c.request()), exchange(c.exchange()), scratch(c.scratch());
      poison(c.exchange(), 1u << 20);
      const Mesh mesh(world, cases[i].shape, toy.heads());
      RankRun& run = all[i][static_cast<size_t>(world.rank())];
      run.velocity = values_of(toy.forward(c, &mesh, cases[i].forms, &run.log));
      c.drop_weights("transformer");
    }
  });
  return all;
}

inline std::vector<Record> dry_log(const Toy& toy, const Case& one, int rank) {
  DryWorld dry(rank, one.shape.world());
  const auto world = dry.comm();
  const Mesh mesh(*world, one.shape, toy.heads());
  DryRank counting(device::traits());
  std::vector<Record> log;
  toy.forward(counting.c, &mesh, one.forms, &log);
  return log;
}

// Calls and bytes by axis and verb.
using Sums = std::map<std::pair<std::string, Verb>, std::pair<int64_t, int64_t>>;

inline Sums sums(const std::vector<Record>& log) {
  Sums all;
  for (const Record& r : log) ++all[{r.axis, r.verb}].first, all[{r.axis, r.verb}].second += r.bytes;
  return all;
}

}  // namespace zoetrope
