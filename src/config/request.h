// A request twice: Ask is what the caller said (unset: the recipe decides), Request is complete. Resolving one into the
// other is the only place where defaults are applied and values are judged against the model.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace zoetrope {

struct Ask {
  std::string prompt;
  std::optional<std::string> negative_prompt;
  std::optional<int> width, height, num_frames, fps, steps;
  std::optional<double> guidance_scale, guidance_scale_2, flow_shift, boundary_ratio;
  std::optional<std::string> schedule;       // diffusers | native
  std::optional<std::string> recipe;         // original | folder
  std::optional<std::string> preset;         // standard | draft
  std::optional<std::string> frames_policy;  // exact | floor | ceil
  std::optional<std::string> noise;          // torch-cpu | torch-cuda:MxB
  std::optional<uint64_t> seed;
  std::optional<std::string> latents;  // file with the initial latents
};

struct Request {
  std::string recipe;  // "wan2.2-t2v-a14b/original"
  std::string prompt, negative_prompt;
  int width = 0, height = 0;
  int num_frames = 0;   // computed: 4k + 1
  int drop_frames = 0;  // of those, left out at the end (frames policy ceil)
  int fps = 0, steps = 0;
  int experts = 1;  // of the model
  double guidance_scale = 0, flow_shift = 0;
  double guidance_scale_2 = 0, boundary_ratio = 0;  // two experts only
  std::string schedule, noise;
  uint64_t seed = 0;
  std::string latents;
  std::vector<std::string> warnings;  // what the user should know before believing the result

  bool guided() const { return guidance_scale > 1; }  // the first scale decides, as in diffusers
  int latent_frames() const { return (num_frames - 1) / 4 + 1; }
  friend bool operator==(const Request&, const Request&) = default;
};

// What of a model a request depends on.
struct ModelInfo {
  std::string pipeline_class;  // "WanPipeline"
  std::string source;          // folder or name, for messages
  int experts = 1;
  int dim = 0, layers = 0, in_channels = 0;
  int spatial_scale = 8;  // pixels a latent row
  std::optional<double> boundary_ratio;
  double folder_flow_shift = 1;
};

// Fills what is unset from the recipe of the model and checks everything. `fresh_seed` is used where none is given.
Request resolve(const Ask& ask, const ModelInfo& model, uint64_t fresh_seed);

// num_frames under a policy: {frames to compute (4k + 1), frames to drop}.
struct FrameCount {
  int compute, drop;
};
FrameCount count_frames(int asked, const std::string& policy);

Json to_json(const Request& request);

}  // namespace zoetrope
