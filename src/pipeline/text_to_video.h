// Prompt -> text vectors -> latents -> frames: the Wan text-to-video pipeline, one or two experts. The same code runs
// in a dry context, where it counts work and memory.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "config/request.h"
#include "io/tokenizer.h"
#include "models/source.h"
#include "models/umt5/umt5.h"
#include "models/wan/transformer.h"
#include "models/wan_vae/decoder.h"
#include "pipeline/hooks.h"
#include "sched/unipc.h"

namespace zoetrope {

// Token ids of a request, end token included.
struct PromptIds {
  std::vector<int32_t> positive, negative;
};

struct Timings {
  double text_encode = 0, denoise = 0, vae_decode = 0, encode = 0;
  std::vector<double> steps;
};

class TextToVideo {
 public:
  // Loads every part into c. `source` is only read here.
  TextToVideo(Ctx& c, const ModelSource& source, DType dtype, DType vae_dtype, const Hooks& hooks);

  // Runs one request; frames reach the sink behind the decoder. Whatever it throws, c is as before afterwards.
  Timings run(Ctx& c, const Request& request, const SchedulerConfig& scheduler, const PromptIds& ids,
              const Hooks& hooks, FrameSink& sink) const;

 private:
  // One expert's share of a request.
  struct Expert {
    const WanTransformer* model = nullptr;
    int first = 0, last = 0;  // its steps
    StepTable table;          // row 0 is step `first`
    Text positive, negative;
    Tensor scale;  // [1]
  };

  Shape latent_shape(const Request& request) const;
  std::vector<Expert> experts(Ctx& c, const Request& request, const Schedule& schedule, int high) const;
  void encode_text(Ctx& c, const Request& request, const PromptIds& ids, std::vector<Expert>& experts) const;
  Tensor velocity(Ctx& c, const Request& request, const Expert& expert, const Tensor& latents, int step) const;
  void denoise(Ctx& c, const Request& request, const Schedule& schedule, const std::vector<Expert>& experts,
               UniPC& solver, const Hooks& hooks, Timings& timings) const;
  void decode(Ctx& c, const Request& request, const Tensor& latents, const Hooks& hooks, FrameSink& sink) const;

  std::optional<Umt5Encoder> text_encoder_;
  std::optional<WanTransformer> high_, low_;  // low_: only with two experts
  std::optional<WanVaeDecoder> vae_;
};

std::unique_ptr<Tokenizer> open_tokenizer(const ModelSource& source);  // its own, or the toys' for random weights

// Cleans and encodes both prompts; `rows` is the most a prompt may have.
PromptIds encode_prompts(const Tokenizer& tokenizer, const Request& request, int rows = WanConfig::text_rows);

}  // namespace zoetrope
