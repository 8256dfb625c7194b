#include "pipeline/text_to_video.h"

#include "base/deadline.h"
#include "base/error.h"
#include "pipeline/finite.h"
#include "pipeline/latents.h"

namespace zoetrope {
namespace {

// Says in which stage memory ran out, and what would help.
template <class F>
void in_stage(Stage stage, F body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.code() != Code::out_of_memory) throw;
    fail(error.code(), name(stage), ": ", error.what(), "; a smaller size, fewer frames or --dtype bf16 needs less");
  }
}

std::vector<float> as_floats(std::span<const int64_t> values) { return {values.begin(), values.end()}; }

}  // namespace

TextToVideo::TextToVideo(Ctx& c, const ModelSource& source, DType dtype, DType vae_dtype, const Hooks& hooks,
                         const Mesh* mesh, const attn::Forms& forms)
    : mesh_(mesh ? *mesh : solo_.emplace().mesh()), exchange_(c, &mesh_, attn::make_attention(c, mesh_, forms)) {
  const Waiting waiting(mesh_.world().waits(), Wait::load);
  const int parts = source.has("transformer_2") ? 4 : 3;
  const Stopwatch watch;
  int done = 0;
  const auto load = [&](auto&& make) {
    in_stage(Stage::load, make);
    hooks.report({Stage::load, ++done, parts, watch.seconds()});
    hooks.check();
  };
  const auto expert = [&](std::optional<WanTransformer>& model, const char* name) {
    const ModelPart& part = source.at(name);
    model.emplace(c, wan_config(part.config), *part.weights, dtype, name, exchange_);
  };
  load([&] { text_.emplace(c, source, dtype, mesh_); });
  load([&] { expert(high_, "transformer"); });
  if (parts == 4) load([&] { expert(low_, "transformer_2"); });
  load([&] { decode_.emplace(c, source, vae_dtype, mesh_); });
}

Shape TextToVideo::latent_shape(const Request& request) const {
  const int64_t scale = decode_->config().spatial_factor();
  return {request.latent_frames(), request.height / scale, request.width / scale, high_->config().in_channels};
}

// Experts that have no step are left out: nothing is computed for them.
std::vector<TextToVideo::Expert> TextToVideo::experts(Ctx& c, const Request& request, const Schedule& schedule,
                                                      int high) const {
  std::vector<Expert> list;
  const auto add = [&](const WanTransformer& model, int first, int last, double guidance) {
    if (first == last) return;
    Expert expert{&model, first, last, {}, {}, c.empty({1}, DType::f32, c.request())};
    const auto scale = static_cast<float>(guidance);
    c.upload(&scale, expert.scale);
    const auto own = std::span(schedule.timesteps).subspan(first, last - first);
    expert.table = model.steps(c, as_floats(own));
    list.push_back(expert);
  };
  add(*high_, 0, low_ ? high : schedule.steps(), request.guidance_scale);
  if (low_) add(*low_, high, schedule.steps(), request.guidance_scale_2);
  return list;
}

void TextToVideo::encode_text(Ctx& c, const Guidance& guidance, const PromptIds& ids, std::vector<Expert>& experts) {
  std::vector<std::span<const int32_t>> prompts{ids.positive, ids.negative};
  prompts.resize(static_cast<size_t>(guidance.streams()));
  const std::vector<Tensor> vectors = text_->encode(c, prompts, guidance.own());  // [512, C] each
  for (size_t i = 0; i < vectors.size(); ++i)
    for (Expert& expert : experts) {
      const auto real = static_cast<int64_t>(prompts[static_cast<size_t>(guidance.own()[i])].size());
      expert.texts.push_back(expert.model->encode_text(c, vectors[i], real));
    }
}

Tensor TextToVideo::velocity(Ctx& c, const Guidance& guidance, const Expert& expert, const Tensor& latents,
                             int step) const {
  std::vector<Tensor> predictions;
  for (const Text& text : expert.texts)
    predictions.push_back(expert.model->forward(c, latents, expert.table, step - expert.first, text));
  return guidance.join(c, predictions, expert.scale);
}

void TextToVideo::denoise(Ctx& c, const Guidance& guidance, const Schedule& schedule,
                          const std::vector<Expert>& experts, UniPC& solver, const Hooks& hooks,
                          Timings& timings) const {
  Waits& waits = mesh_.world().waits();
  const Waiting waiting(waits, Wait::step);
  const Stopwatch watch;
  for (const Expert& expert : experts)
    for (int i = expert.first; i < expert.last; ++i) {
      hooks.check();
      Scope scope(c.scratch());
      const Stopwatch step;
      const Tensor v = velocity(c, guidance, expert, solver.latents(), i);
      c.tap(cat("velocity.", i), v);
      require_finite(range_of(c, v).bad,  // the same velocity on every rank
                     cat("denoise: step ", i + 1, " of ", schedule.steps(), " (",
                         expert.model == &*high_ ? "transformer" : "transformer_2", ")"));
      solver.step(c, i, v);
      c.tap(cat("latents.", i), solver.latents());
      timings.steps.push_back(step.seconds());
      waits.observe(Wait::step, step.seconds());
      hooks.report({Stage::denoise, i + 1, schedule.steps(), watch.seconds()});
    }
}

RunFacts TextToVideo::run(Ctx& c, const Request& request, const SchedulerConfig& scheduler, const PromptIds& ids,
                          const Hooks& hooks, FrameSink& sink) {
  Scope job(c.request()), scratch(c.scratch());
  const Schedule schedule = make_schedule(scheduler, request.steps, parse_grid(request.schedule));
  const int high = low_ ? high_noise_steps(schedule, scheduler, request.boundary_ratio) : schedule.steps();
  const Guidance guidance(request.guided(), mesh_);
  RunFacts facts;
  Timings& timings = facts.timings;

  Stopwatch watch;
  hooks.report({Stage::text_encode, 0, 0, 0});
  std::vector<Expert> shares;
  in_stage(Stage::text_encode, [&] {
    const Waiting waiting(mesh_.world().waits(), Wait::load);  // minutes with a large encoder, and but once
    shares = experts(c, request, schedule, high);
    encode_text(c, guidance, ids, shares);
  });
  timings.text_encode = watch.seconds();
  hooks.report({Stage::text_encode, 1, 1, timings.text_encode});

  watch = {};
  std::optional<UniPC> solver;
  in_stage(Stage::denoise, [&] {
    solver.emplace(c, initial_latents(c, request, latent_shape(request)), schedule, scheduler.solver_order);
    const Collectives before = collectives_of(mesh_);
    denoise(c, guidance, schedule, shares, *solver, hooks, timings);
    const auto predictions = static_cast<int64_t>(guidance.own().size()) * schedule.steps();
    facts.forward = per(predictions, collectives_of(mesh_), before);
  });
  timings.denoise = watch.seconds();

  watch = {};
  in_stage(Stage::vae_decode, [&] { decode_->run(c, request, solver->latents(), hooks, sink); });
  timings.vae_decode = watch.seconds();

  watch = {};
  hooks.report({Stage::encode, 0, 0, 0});
  if (mesh_.world().rank() == 0) {  // the others have nothing left that could fail
    hooks.check();
    if (!c.dry()) sink.finish(hooks.stop);
  }
  timings.encode = watch.seconds();
  hooks.report({Stage::encode, 1, 1, timings.encode});
  return facts;
}

}  // namespace zoetrope
