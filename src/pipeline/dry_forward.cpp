#include "pipeline/dry_forward.h"

#include "comm/dry/world.h"
#include "models/wan/transformer.h"
#include "models/wan_vae/config.h"
#include "pipeline/facts.h"
#include "pipeline/text_to_video.h"

namespace zoetrope {
namespace {

PromptIds longest_prompts(const Request& request) {
  PromptIds ids{std::vector<int32_t>(WanConfig::text_rows, 1), {}};
  if (request.guided()) ids.negative = ids.positive;
  return ids;
}

}  // namespace

DryVideo dry_video(DryRank& dry, const ModelSource& source, const Request& request, DType dtype, DType vae_dtype,
                   const Layout& layout, int rank, Residency residency) {
  DryWorld world(rank, layout.shape.world());
  const auto comm = world.comm();
  const Mesh mesh(*comm, layout.shape, mesh_heads(source));
  TextToVideo pipeline(dry.c, source, dtype, vae_dtype, &mesh, layout.forms);
  pipeline.load(dry.c, residency, {});
  world.clear();
  NoFrames sink;
  RunFacts facts = pipeline.run(dry.c, request, scheduler_config(source, request), longest_prompts(request), {}, sink);
  return {std::move(facts.forward), count(world.log()), std::move(facts.memory)};
}

DryForward dry_forward(const ModelSource& source, const Request& request, const Traits& traits, DType dtype,
                       const Layout& layout, int rank) {
  const ModelPart& part = source.at("transformer");
  const WanConfig config = wan_config(part.config);
  DryRank dry(traits);
  Ctx& c = dry.c;
  DryWorld world(rank, layout.shape.world());
  const auto comm = world.comm();
  const Mesh mesh(*comm, layout.shape, {config.heads, config.heads});
  const WanTransformer model(c, config, *part.weights, dtype, "transformer", &mesh,
                             attn::make_attention(c, mesh, layout.forms));

  const float timestep = 500;
  const StepTable table = model.steps(c, {&timestep, 1});
  const Text text = model.encode_text(c, c.empty({WanConfig::text_rows, config.text_dim}, dtype), 1);
  const int64_t scale = wan_vae_config(source.at("vae").config).spatial_factor();
  const Shape latents{request.latent_frames(), request.height / scale, request.width / scale, config.in_channels};
  const Tensor x = c.empty(latents, DType::f32);
  dry.rank.counts.clear();
  model.forward(c, x, table, 0, text);

  return {config.tokens(latents[0], latents[1], latents[2]), flops_of(dry.rank.counts)};
}

}  // namespace zoetrope
