// Prompt -> text vectors -> latents -> frames: the Wan text-to-video pipeline, one or two experts, on a mesh of any
// number of ranks. The same code runs in a dry context, where it counts work and memory.
//
// Every rank of the mesh makes the same calls with the same arguments. What a rank decides from values that it has read
// back is read alike by all, or agreed on (comm/agree.h); such an error is an AgreedError. Any other error is one
// rank's own, and who catches it must abort the group.
#pragma once
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
  Collectives forward;  // what this rank issued for one prediction, the exchange of guidance included
};

class TextToVideo {
 public:
  // Loads what this rank needs into c. `source` is only read here. `mesh` (null: one rank) must outlive the pipeline.
  TextToVideo(Ctx& c, const ModelSource& source, DType dtype, DType vae_dtype, const Hooks& hooks,
              const Mesh* mesh = nullptr, const attn::Forms& forms = {});

  // Runs one request; frames reach rank 0's sink behind the decoder. Whatever it throws, c is as before afterwards.
  RunFacts run(Ctx& c, const Request& request, const SchedulerConfig& scheduler, const PromptIds& ids,
               const Hooks& hooks, FrameSink& sink);

 private:
  // One expert's share of a request.
  struct Expert {
    const WanTransformer* model = nullptr;
    int first = 0, last = 0;  // its steps
    StepTable table;          // row 0 is step `first`
    std::vector<Text> texts;  // of this rank's streams
    Tensor scale;             // [1]
  };

  Shape latent_shape(const Request& request) const;
  std::vector<Expert> experts(Ctx& c, const Request& request, const Schedule& schedule, int high) const;
  void encode_text(Ctx& c, const Guidance& guidance, const PromptIds& ids, std::vector<Expert>& experts);
  Tensor velocity(Ctx& c, const Guidance& guidance, const Expert& expert, const Tensor& latents, int step) const;
  void denoise(Ctx& c, const Guidance& guidance, const Schedule& schedule, const std::vector<Expert>& experts,
               UniPC& solver, const Hooks& hooks, Timings& timings) const;

  std::optional<SoloMesh> solo_;  // where no mesh was given
  const Mesh& mesh_;
  WanExchange exchange_;  // of both experts, which take turns
  std::optional<TextStage> text_;
  std::optional<WanTransformer> high_, low_;  // low_: only with two experts
  std::optional<DecodeStage> decode_;
};

}  // namespace zoetrope
