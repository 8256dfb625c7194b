#include "pipeline/text_to_video.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/deadline.h"
#include "base/error.h"
#include "config/resources.h"
#include "io/prompt.h"
#include "pipeline/latents.h"

namespace zoetrope {
namespace {

// Looks at a result before more is built on it: one that is not finite ends the job, and says where it first appeared.
// Returns {min, max}.
std::pair<float, float> check_finite(Ctx& c, const Tensor& x, const std::string& what) {
  Scope scope(c.scratch());
  const auto range = c.fetch<float>(value_range(c, x), 0.0f);
  if (range[2] > 0)
    fail(Code::device, what, " holds ", static_cast<int64_t>(range[2]),
         " values that are not finite; the video would be black");
  return {range[0], range[1]};
}

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

std::string cleaned_negative(const Request& request) {
  try {
    return clean_prompt(request.negative_prompt);
  } catch (const Error& error) {
    fail(error.code(), "negative ", error.what());  // "negative prompt: ..."
  }
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const ModelSource& source) {
  if (!source.random()) return Tokenizer::open(source.folder / "tokenizer");
  return Tokenizer::from_model(resource("toy/tokenizer/spiece.model"));
}

PromptIds encode_prompts(const Tokenizer& tokenizer, const Request& request, int rows) {
  PromptIds ids;
  ids.positive = tokenizer.encode(clean_prompt(request.prompt), rows);
  const std::string negative = cleaned_negative(request);  // checked even where guidance leaves it out: reports show it
  if (request.guided()) ids.negative = tokenizer.encode(negative, rows);
  return ids;
}

TextToVideo::TextToVideo(Ctx& c, const ModelSource& source, DType dtype, DType vae_dtype, const Hooks& hooks) {
  const int parts = source.has("transformer_2") ? 4 : 3;
  const Stopwatch watch;
  int done = 0;
  const auto load = [&]<class Model>(std::optional<Model>& model, const char* name, const auto& config, DType type) {
    in_stage(Stage::load, [&] { model.emplace(c, config, *source.at(name).weights, type, name); });
    hooks.report({Stage::load, ++done, parts, watch.seconds()});
    hooks.check();
  };
  load(text_encoder_, "text_encoder", umt5_config(source.at("text_encoder").config), dtype);
  load(high_, "transformer", wan_config(source.at("transformer").config), dtype);
  if (parts == 4) load(low_, "transformer_2", wan_config(source.at("transformer_2").config), dtype);
  load(vae_, "vae", wan_vae_config(source.at("vae").config), vae_dtype);
}

Shape TextToVideo::latent_shape(const Request& request) const {
  const int64_t scale = vae_->config().spatial_factor();
  return {request.latent_frames(), request.height / scale, request.width / scale, high_->config().in_channels};
}

// Experts that have no step are left out: nothing is computed for them.
std::vector<TextToVideo::Expert> TextToVideo::experts(Ctx& c, const Request& request, const Schedule& schedule,
                                                      int high) const {
  std::vector<Expert> list;
  const auto add = [&](const WanTransformer& model, int first, int last, double guidance) {
    if (first == last) return;
    Expert expert{&model, first, last, {}, {}, {}, c.empty({1}, DType::f32, c.request())};
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

void TextToVideo::encode_text(Ctx& c, const Request& request, const PromptIds& ids,
                              std::vector<Expert>& experts) const {
  const auto encode = [&](const std::vector<int32_t>& prompt, Text Expert::*slot, const char* name) {
    const Tensor context = text_encoder_->encode(c, prompt, WanConfig::text_rows);  // [512, C]
    c.tap(name, context);
    check_finite(c, context, cat("text_encode: the ", name));
    for (Expert& expert : experts)
      expert.*slot = expert.model->encode_text(c, context, static_cast<int64_t>(prompt.size()));
  };
  encode(ids.positive, &Expert::positive, "prompt embedding");
  if (request.guided()) encode(ids.negative, &Expert::negative, "negative prompt embedding");
}

Tensor TextToVideo::velocity(Ctx& c, const Request& request, const Expert& expert, const Tensor& latents,
                             int step) const {
  const int row = step - expert.first;
  const Tensor conditional = expert.model->forward(c, latents, expert.table, row, expert.positive);
  if (!request.guided()) return conditional;
  const Tensor unconditional = expert.model->forward(c, latents, expert.table, row, expert.negative);
  return guide(c, conditional, unconditional, expert.scale);
}

void TextToVideo::denoise(Ctx& c, const Request& request, const Schedule& schedule, const std::vector<Expert>& experts,
                          UniPC& solver, const Hooks& hooks, Timings& timings) const {
  const Stopwatch watch;
  for (const Expert& expert : experts)
    for (int i = expert.first; i < expert.last; ++i) {
      hooks.check();
      Scope scope(c.scratch());
      const Stopwatch step;
      const Tensor v = velocity(c, request, expert, solver.latents(), i);
      check_finite(c, v,
                   cat("denoise: step ", i + 1, " of ", schedule.steps(), " (",
                       expert.model == &*high_ ? "transformer" : "transformer_2", ")"));
      solver.step(c, i, v);
      c.tap(cat("latents.", i), solver.latents());
      timings.steps.push_back(step.seconds());
      hooks.report({Stage::denoise, i + 1, schedule.steps(), watch.seconds()});
    }
}

void TextToVideo::decode(Ctx& c, const Request& request, const Tensor& latents, const Hooks& hooks,
                         FrameSink& sink) const {
  const Stopwatch watch;
  const int total = request.num_frames - request.drop_frames;
  sink.begin(request.width, request.height, total, request.fps);
  WanVaeDecoder::Stream stream(*vae_);
  float low = std::numeric_limits<float>::max(), high = std::numeric_limits<float>::lowest();
  int sent = 0;
  for (int64_t t = 0; t < latents.dim(0); ++t) {
    hooks.check();
    Scope scope(c.scratch());
    const Tensor video = stream.decode_next(c, latents.rows(t, t + 1));  // [1 or 4, H, W, 3]
    c.tap(cat("video.", t), video);
    const auto [least, most] = check_finite(c, video, cat("vae_decode: latent frame ", t));
    low = std::min(low, least), high = std::max(high, most);
    const Tensor pixels = to_pixels(c, video);
    if (c.dry()) continue;  // frames are large, and nobody looks
    const auto bytes = c.fetch<uint8_t>(pixels, uint8_t{0});
    const size_t frame = bytes.size() / static_cast<size_t>(pixels.dim(0));
    for (int64_t f = 0; f < pixels.dim(0) && sent < total; ++f, ++sent)
      sink.frame(std::span(bytes).subspan(static_cast<size_t>(f) * frame, frame));
    hooks.report({Stage::vae_decode, sent, total, watch.seconds()});
  }
  if (!c.dry() && low == high)
    fail(Code::device, "vae_decode: every pixel of the video is the same; the latents say nothing");
}

Timings TextToVideo::run(Ctx& c, const Request& request, const SchedulerConfig& scheduler, const PromptIds& ids,
                         const Hooks& hooks, FrameSink& sink) const {
  Scope job(c.request()), scratch(c.scratch());
  const Schedule schedule = make_schedule(scheduler, request.steps, parse_grid(request.schedule));
  const int high = low_ ? high_noise_steps(schedule, scheduler, request.boundary_ratio) : schedule.steps();
  Timings timings;

  Stopwatch watch;
  hooks.report({Stage::text_encode, 0, 0, 0});
  std::vector<Expert> shares;
  in_stage(Stage::text_encode, [&] {
    shares = experts(c, request, schedule, high);
    encode_text(c, request, ids, shares);
  });
  timings.text_encode = watch.seconds();

  watch = {};
  std::optional<UniPC> solver;
  in_stage(Stage::denoise, [&] {
    solver.emplace(c, initial_latents(c, request, latent_shape(request)), schedule, scheduler.solver_order);
    denoise(c, request, schedule, shares, *solver, hooks, timings);
  });
  timings.denoise = watch.seconds();

  watch = {};
  in_stage(Stage::vae_decode, [&] { decode(c, request, solver->latents(), hooks, sink); });
  timings.vae_decode = watch.seconds();

  watch = {};
  hooks.report({Stage::encode, 0, 0, 0});
  hooks.check();
  if (!c.dry()) sink.finish(hooks.stop);
  timings.encode = watch.seconds();
  return timings;
}

}  // namespace zoetrope
