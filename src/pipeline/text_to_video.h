// Prompt -> text vectors -> latents -> frames: the Wan text-to-video pipeline, one or two experts, on a mesh of any
// number of ranks. The same code runs in a dry context, where it counts work and memory.
//
// Every rank of the mesh makes the same calls with the same arguments. What a rank decides from values that it has read
// back is read alike by all, or agreed on (comm/agree.h); such an error is an AgreedError. Any other error is one
// rank's own, and who catches it must abort the group.
//
// Weights come and go as the residency says (pipeline/memory.h); results have the same bits in each. Pages stay for the
// next job, and recordings with them: a job of the same shape, whatever its prompts and number of steps, takes none.
// Who wants pages back trims (pipeline/memory.h) between jobs.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "config/request.h"
#include "mesh/solo.h"
#include "models/source.h"
#include "models/wan/transformer.h"
#include "pipeline/collectives.h"
#include "pipeline/decode_stage.h"
#include "pipeline/guidance.h"
#include "pipeline/hooks.h"
#include "pipeline/memory.h"
#include "pipeline/prompt_ids.h"
#include "pipeline/text_stage.h"
#include "sched/unipc.h"

namespace zoetrope {

struct Timings {
  double text_encode = 0, denoise = 0, vae_decode = 0, encode = 0;
  std::vector<double> steps;
};

struct RunFacts {
  Timings timings;
  Collectives forward;              // what this rank issued for one prediction, the exchange of guidance included
  std::vector<StageMemory> memory;  // at the end of each stage, of denoising for each expert
};

class TextToVideo {
 public:
  // Reads no weights yet. `source` and `mesh` (null: one rank) must outlive the pipeline.
  TextToVideo(Ctx& c, const ModelSource& source, DType dtype, DType vae_dtype, const Mesh* mesh,
              const attn::Forms& forms);
  // And loads all weights of this rank.
  TextToVideo(Ctx& c, const ModelSource& source, DType dtype, DType vae_dtype, const Hooks& hooks,
              const Mesh* mesh = nullptr, const attn::Forms& forms = {});

  // Brings in whatever a job of this residency begins with and lets go of what it does not keep. No collectives. What
  // it throws leaves whole parts; the next call goes on there.
  void load(Ctx& c, Residency residency, const Hooks& hooks);
  bool loaded(Residency residency) const;  // nothing is left for load() to do

  // Runs one request; frames reach rank 0's sink behind the decoder. Whatever it throws, c is as before afterwards.
  RunFacts run(Ctx& c, const Request& request, const SchedulerConfig& scheduler, const PromptIds& ids,
               const Hooks& hooks, FrameSink& sink);

 private:
  // One expert's share of a request. What its weights make of the request is made when they are there.
  struct Expert {
    size_t number = 0;
    int first = 0, last = 0;  // its steps
    double guidance = 0;
    StepTable table;          // row 0 is step `first`
    std::vector<Text> texts;  // of this rank's streams
    Tensor scale;             // [1]
  };
  struct Run;  // one request on its way

  size_t experts() const { return source_.has("transformer_2") ? 2 : 1; }
  bool keeps_experts() const { return residency_ != Residency::one_expert; }
  std::vector<std::function<void()>> missing(Ctx& c);
  void load_expert(Ctx& c, size_t number);
  void drop_expert(Ctx& c, size_t number);
  Shape latent_shape(const Request& request) const;
  std::vector<Expert> shares(const Run& run) const;
  void encode_text(Run& run);
  void prepare(Run& run, Expert& expert) const;
  void change_to(Run& run, Expert& expert);
  void enter(Run& run, Expert& expert);
  bool hands_over(const Run& run, const Expert& expert, int step) const;
  Tensor hand_over(Run& run, const Expert& expert, const Tensor& latents, int step);
  std::vector<Tensor> predict(Run& run, const Expert& expert, const Tensor& latents, int step);
  void move(Run& run, const Expert& expert, const std::vector<Tensor>& own, UniPC& solver, int step);
  void steps(Run& run, const Expert& expert, UniPC& solver);
  void denoise(Run& run, UniPC& solver);

  const ModelSource& source_;
  DType dtype_, vae_dtype_;
  WanConfig config_;  // of both experts
  Residency residency_ = Residency::all;
  std::optional<SoloMesh> solo_;  // where no mesh was given
  const Mesh& mesh_;
  WanExchange exchange_;  // of both experts, which take turns
  TextStage text_;
  std::array<std::optional<WanTransformer>, 2> experts_;
  std::optional<DecodeStage> decode_;
};

}  // namespace zoetrope
