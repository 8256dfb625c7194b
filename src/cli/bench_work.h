// The work that `bench` times and `tune` measures plans with: a model's forward passes, its attention, a decode.
// Weights are those of the model, inputs random of unit variance.
#pragma once
#include <memory>

#include "cli/bench_rank.h"
#include "config/request.h"
#include "models/wan/transformer.h"
#include "models/wan_vae/decoder.h"

namespace zoetrope::cli {

Shape latent_shape(const ModelSource& source, const Request& request);  // [T, H, W, C]

// A step as the denoiser does it, but for the solver, which moves what the next run would start from: one forward, or
// two and guidance.
class StepWork {
 public:
  StepWork(BenchRank& rank, const WanConfig& config, nn::Parameters& weights, const std::string& component,
           const Shape& latents, DType dtype, bool guided);
  void run();
  const Tensor& result() const { return result_; }  // the velocity, in the request region

 private:
  Ctx& c_;
  bool guided_;
  WanTransformer model_;
  Tensor latents_, scale_, result_;
  StepTable steps_;
  Text texts_[2];
};

// The self-attention of one layer, all heads.
class AttentionWork {
 public:
  AttentionWork(BenchRank& rank, const WanConfig& config, int64_t tokens, DType dtype);
  void run();
  const Tensor& result() const { return result_; }

 private:
  Ctx& c_;
  int64_t heads_, width_;
  Tensor qkv_, result_;
};

class DecodeWork {
 public:
  // `count`: so many of the latent frames.
  DecodeWork(BenchRank& rank, const WanVaeConfig& config, nn::Parameters& weights, const Shape& latents, int64_t count,
             DType dtype);
  void run();
  const Tensor& result() const { return result_; }  // [frames, 8H, 8W, 3]

 private:
  Ctx& c_;
  WanVaeDecoder decoder_;
  Tensor latents_, result_;
};

}  // namespace zoetrope::cli
