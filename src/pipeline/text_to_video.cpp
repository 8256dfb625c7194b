#include "pipeline/text_to_video.h"

#include "base/deadline.h"
#include "base/error.h"
#include "comm/agree.h"
#include "models/wan/refill.h"
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
    const std::string said =
        cat(name(stage), ": ", error.what(), "; a smaller size, fewer frames or --dtype bf16 needs less");
    if (dynamic_cast<const AgreedError*>(&error)) throw AgreedError(error.code(), said);
    throw Error(error.code(), said);
  }
}

// What a body that throws has left half done is undone.
template <class F, class G>
void or_undo(F body, G undo) {
  try {
    body();
  } catch (...) {
    undo();
    throw;
  }
}

constexpr std::array component_of{"transformer", "transformer_2"};

std::vector<float> as_floats(std::span<const int64_t> values) { return {values.begin(), values.end()}; }

}  // namespace

struct TextToVideo::Run {
  Ctx& c;
  const Request& request;
  const PromptIds& ids;
  const Hooks& hooks;
  Schedule schedule;
  int high;  // steps of the first expert
  Guidance guidance;
  std::vector<std::span<const int32_t>> prompts;  // of all streams
  std::vector<Tensor> vectors;                    // [512, C] each, of this rank's streams
  std::vector<Expert> shares;
  RunFacts facts;
  Stopwatch watch;  // since the first step

  void note_memory(Stage stage) { facts.memory.push_back(memory_at(c.rank(), stage)); }
};

TextToVideo::TextToVideo(Ctx& c, const ModelSource& source, DType dtype, DType vae_dtype, const Hooks& hooks,
                         const Mesh* mesh, const attn::Forms& forms)
    : TextToVideo(c, source, dtype, vae_dtype, mesh, forms) {
  load(c, Residency::all, hooks);
}

TextToVideo::TextToVideo(Ctx& c, const ModelSource& source, DType dtype, DType vae_dtype, const Mesh* mesh,
                         const attn::Forms& forms)
    : source_(source),
      dtype_(dtype),
      vae_dtype_(vae_dtype),
      config_(wan_config(source.at("transformer").config)),
      mesh_(mesh ? *mesh : solo_.emplace().mesh()),
      exchange_(c, &mesh_, attn::make_attention(c, mesh_, forms)),
      text_(source, dtype, mesh_) {}

// ---- weights ----------------------------------------------------------------------------------------------------

void TextToVideo::load_expert(Ctx& c, size_t number) {
  const char* component = component_of[number];
  const ModelPart& part = source_.at(component);
  or_undo([&] { experts_[number].emplace(c, wan_config(part.config), *part.weights, dtype_, component, exchange_); },
          [&] { drop_expert(c, number); });
}

void TextToVideo::drop_expert(Ctx& c, size_t number) {
  experts_[number].reset();
  c.drop_weights(component_of[number]);
}

std::vector<std::function<void()>> TextToVideo::missing(Ctx& c) {
  std::vector<std::function<void()>> parts;
  if (residency_ == Residency::all && !text_.loaded()) parts.emplace_back([&] { text_.load(c); });
  for (size_t i = 0; i < experts() && keeps_experts(); ++i)
    if (!experts_[i]) parts.emplace_back([&, i] { load_expert(c, i); });
  if (!decode_)
    parts.emplace_back(
        [&] { or_undo([&] { decode_.emplace(c, source_, vae_dtype_, mesh_); }, [&] { c.drop_weights("vae"); }); });
  return parts;
}

bool TextToVideo::loaded(Residency residency) const {
  const bool all_experts = experts_[0] && (experts() == 1 || experts_[1]);
  return residency == residency_ && decode_ && (residency != Residency::all || text_.loaded()) &&
         (residency == Residency::one_expert || all_experts);
}

void TextToVideo::load(Ctx& c, Residency residency, const Hooks& hooks) {
  const Waiting waiting(mesh_.world().waits(), Wait::load);
  residency_ = residency;
  if (residency != Residency::all) text_.drop(c);
  for (size_t i = 0; i < experts() && !keeps_experts(); ++i)
    if (experts() > 1 && experts_[0] && experts_[1]) drop_expert(c, i);

  const Stopwatch watch;
  const auto parts = missing(c);
  for (size_t done = 0; done < parts.size();) {
    in_stage(Stage::load, parts[done]);
    hooks.report({Stage::load, static_cast<int>(++done), static_cast<int>(parts.size()), watch.seconds()});
    hooks.check();
  }
}

// ---- one request ------------------------------------------------------------------------------------------------

Shape TextToVideo::latent_shape(const Request& request) const {
  const int64_t scale = decode_->config().spatial_factor();
  return {request.latent_frames(), request.height / scale, request.width / scale, config_.in_channels};
}

// Experts that have no step are left out: nothing is computed for them.
std::vector<TextToVideo::Expert> TextToVideo::shares(const Run& run) const {
  std::vector<Expert> list;
  const auto add = [&](size_t number, int first, int last, double guidance) {
    if (first < last) list.push_back({number, first, last, guidance, {}, {}, {}});
  };
  add(0, 0, run.high, run.request.guidance_scale);
  add(1, run.high, run.schedule.steps(), run.request.guidance_scale_2);
  return list;
}

// Without room for all the encoder comes when a prompt is not known, and leaves at once.
void TextToVideo::encode_text(Run& run) {
  Ctx& c = run.c;
  const auto unknown = text_.unknown(c, run.prompts, run.guidance.own());
  const bool asked = std::ranges::find(unknown, true) != unknown.end();
  if (asked && residency_ != Residency::all) {
    trim(c.rank());  // the encoder's room is that of an earlier job's steps
    together(c, mesh_.world(), [&] {
      for (size_t i = 0; i < experts() && !keeps_experts(); ++i) drop_expert(c, i);
    });
    together(c, mesh_.world(), [&] { text_.load(c); });
  }
  run.vectors = text_.encode(c, run.prompts, run.guidance.own(), unknown);
  run.note_memory(Stage::text_encode);
  if (residency_ != Residency::all) text_.drop(c);
}

// What recordings read. Its size is the same for any prompt and any number of steps, and what has more or less of them
// comes behind it: so it lies in one place in all jobs of a shape.
void TextToVideo::prepare(Run& run, Expert& expert) const {
  Ctx& c = run.c;
  const WanTransformer& model = *experts_[expert.number];
  expert.scale = c.empty({1}, DType::f32, c.request());
  const auto scale = static_cast<float>(expert.guidance);
  c.upload(&scale, expert.scale);
  for (size_t i = 0; i < run.vectors.size(); ++i) {
    const auto& ids = run.prompts[static_cast<size_t>(run.guidance.own()[i])];
    expert.texts.push_back(model.encode_text(c, run.vectors[i], static_cast<int64_t>(ids.size())));
  }
}

// Where only one expert has room the other leaves first, on all ranks before the first of them loads: they may share
// what they let go of.
void TextToVideo::change_to(Run& run, Expert& expert) {
  const Waiting waiting(mesh_.world().waits(), Wait::load);
  Ctx& c = run.c;
  together(c, mesh_.world(), [&] {
    if (experts() > 1) drop_expert(c, 1 - expert.number);
  });
  together(c, mesh_.world(), [&] {
    if (!experts_[expert.number]) load_expert(c, expert.number);
  });
  prepare(run, expert);
}

void TextToVideo::enter(Run& run, Expert& expert) {
  if (!keeps_experts()) change_to(run, expert);
  const auto own = std::span(run.schedule.timesteps).subspan(expert.first, expert.last - expert.first);
  expert.table = experts_[expert.number]->steps(run.c, as_floats(own));
}

// Whether the next expert fills this one's memory during its last step. Ranks that share weights exchange them whole.
bool TextToVideo::hands_over(const Run& run, const Expert& expert, int step) const {
  return !keeps_experts() && mesh_.world().size() == 1 && !run.c.dry() && expert.number == 0 &&
         step + 1 == expert.last && run.shares.size() > 1;
}

// An expert's last forward, behind which the other one comes in.
Tensor TextToVideo::hand_over(Run& run, const Expert& expert, const Tensor& latents, int step) {
  Ctx& c = run.c;
  const Waiting waiting(mesh_.world().waits(), Wait::load);
  Tensor prediction;
  or_undo(
      [&] {
        WanRefill refill(c, *experts_[0], *source_.at(component_of[1]).weights, component_of[1]);
        prediction = experts_[0]->forward(c, latents, expert.table, step - expert.first, expert.texts.back(),
                                          [&](size_t block) { refill.passed(block); });
        run.note_memory(Stage::denoise);
        refill.finish(component_of[1]);
      },
      [&] { drop_expert(c, 0); });
  experts_[1] = std::move(experts_[0]);
  experts_[0].reset();
  c.rename_weights(component_of[0], component_of[1]);
  return prediction;
}

// Of this rank's streams.
std::vector<Tensor> TextToVideo::predict(Run& run, const Expert& expert, const Tensor& latents, int step) {
  std::vector<Tensor> predictions;
  for (const Text& text : expert.texts)
    predictions.push_back(
        &text == &expert.texts.back() && hands_over(run, expert, step)
            ? hand_over(run, expert, latents, step)
            : experts_[expert.number]->forward(run.c, latents, expert.table, step - expert.first, text));
  return predictions;
}

// Guidance and solver, as one segment: what changes from step to step lies in device memory before it starts.
void TextToVideo::move(Run& run, const Expert& expert, const std::vector<Tensor>& own, UniPC& solver, int step) {
  Ctx& c = run.c;
  solver.begin(c, step);
  const auto body = [&] {
    Scope scope(c.scratch());
    const Predictions p = run.guidance.join(c, own, expert.scale);
    if (c.rank().tap) c.tap(cat("velocity.", step), p.guided() ? guide(c, p.cond, p.uncond, p.scale) : p.cond);
    solver.step(c, p);
  };
  if (!mesh_.capturable()) return body();
  std::string key = cat("guidance and solver ", solver.latents().shape(), ' ', text_of(mesh_.shape()), ' ',
                        solver.latents().raw(), ' ', expert.scale.raw());
  for (const Tensor& prediction : own) key += cat(' ', prediction.raw());
  c.segment(key, body);
}

// The host waits once a step, for its end.
void TextToVideo::steps(Run& run, const Expert& expert, UniPC& solver) {
  Ctx& c = run.c;
  Waits& waits = mesh_.world().waits();
  const Waiting waiting(waits, Wait::step);
  for (int i = expert.first; i < expert.last; ++i) {
    run.hooks.check();
    Scope scope(c.scratch());
    const Stopwatch step;
    move(run, expert, predict(run, expert, solver.latents(), i), solver, i);
    require_finite(solver.bad(c),  // the same velocity on every rank
                   cat("denoise: step ", i + 1, " of ", run.schedule.steps(), " (", component_of[expert.number], ")"));
    c.tap(cat("latents.", i), solver.latents());
    run.facts.timings.steps.push_back(step.seconds());
    waits.observe(Wait::step, step.seconds());
    run.hooks.report({Stage::denoise, i + 1, run.schedule.steps(), run.watch.seconds()});
  }
}

void TextToVideo::denoise(Run& run, UniPC& solver) {
  run.watch = {};
  for (Expert& expert : run.shares) {
    enter(run, expert);
    const Collectives before = collectives_of(mesh_);
    steps(run, expert, solver);
    const auto predictions = static_cast<int64_t>(run.guidance.own().size()) * (expert.last - expert.first);
    run.facts.forward = per(predictions, collectives_of(mesh_), before);
    run.note_memory(Stage::denoise);
  }
}

RunFacts TextToVideo::run(Ctx& c, const Request& request, const SchedulerConfig& scheduler, const PromptIds& ids,
                          const Hooks& hooks, FrameSink& sink) {
  Scope job(c.request()), scratch(c.scratch());
  Run run{c,
          request,
          ids,
          hooks,
          make_schedule(scheduler, request.steps, parse_grid(request.schedule)),
          0,
          Guidance(request.guided(), mesh_),
          {ids.positive, ids.negative},
          {},
          {},
          {},
          {}};
  run.high = experts() > 1 ? high_noise_steps(run.schedule, scheduler, request.boundary_ratio) : run.schedule.steps();
  run.prompts.resize(static_cast<size_t>(run.guidance.streams()));
  run.shares = shares(run);
  Timings& timings = run.facts.timings;

  Stopwatch watch;
  in_stage(Stage::vae_decode, [&] { decode_->ready(c, request); });  // fails before the work, not after it
  hooks.report({Stage::text_encode, 0, 0, 0});
  in_stage(Stage::text_encode, [&] {
    const Waiting waiting(mesh_.world().waits(), Wait::load);  // minutes with a large encoder, and but once
    encode_text(run);
    for (Expert& expert : run.shares)
      if (keeps_experts()) prepare(run, expert);
  });
  timings.text_encode = watch.seconds();
  hooks.report({Stage::text_encode, 1, 1, timings.text_encode});

  watch = {};
  std::optional<UniPC> solver;
  in_stage(Stage::denoise, [&] {
    solver.emplace(c, initial_latents(c, request, latent_shape(request)), run.schedule, scheduler.solver_order);
    denoise(run, *solver);
  });
  timings.denoise = watch.seconds();

  watch = {};
  in_stage(Stage::vae_decode, [&] { decode_->run(c, request, solver->latents(), hooks, sink); });
  run.note_memory(Stage::vae_decode);
  timings.vae_decode = watch.seconds();

  watch = {};
  hooks.report({Stage::encode, 0, 0, 0});
  if (mesh_.world().rank() == 0) {  // the others have nothing left that could fail
    hooks.check();
    if (!c.dry()) sink.finish(hooks.stop);
  }
  timings.encode = watch.seconds();
  hooks.report({Stage::encode, 1, 1, timings.encode});
  return std::move(run.facts);
}

}  // namespace zoetrope
