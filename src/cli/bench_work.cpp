#include "cli/bench_work.h"

#include "ops/ops.h"

namespace zoetrope::cli {

Shape latent_shape(const ModelSource& source, const Request& request) {
  const int64_t scale = wan_vae_config(source.at("vae").config).spatial_factor();
  return {request.latent_frames(), request.height / scale, request.width / scale,
          wan_config(source.at("transformer").config).in_channels};
}

StepWork::StepWork(BenchRank& rank, const WanConfig& config, nn::Parameters& weights, const std::string& component,
                   const Shape& latents, DType dtype, bool guided)
    : c_(rank.c),
      guided_(guided),
      model_(c_, config, weights, dtype, component),
      latents_(rank.random(latents, 11, DType::f32)),
      scale_(rank.random({1}, 13, DType::f32)),
      result_(c_.empty(latents.with(3, config.out_channels), DType::f32, c_.request())) {
  const float timestep = 500;
  steps_ = model_.steps(c_, {&timestep, 1});
  for (int i = 0; i < (guided ? 2 : 1); ++i)
    texts_[i] = model_.encode_text(
        c_, rank.random({WanConfig::text_rows, config.text_dim}, 20 + static_cast<uint64_t>(i), DType::f32),
        WanConfig::text_rows);
}

void StepWork::run() {
  Scope scope(c_.scratch());
  Tensor v = model_.forward(c_, latents_, steps_, 0, texts_[0]);
  if (guided_) v = guide(c_, v, model_.forward(c_, latents_, steps_, 0, texts_[1]), scale_);
  copy(c_, v, result_);
}

AttentionWork::AttentionWork(BenchRank& rank, const WanConfig& config, int64_t tokens, DType dtype)
    : c_(rank.c),
      heads_(config.heads),
      width_(config.width),
      qkv_(rank.random({tokens, 3 * config.dim()}, 1, dtype)),
      result_(c_.empty({tokens, heads_, width_}, dtype, c_.request())) {}

void AttentionWork::run() {
  Scope scope(c_.scratch());
  const auto part = [&](int64_t i) { return as_heads(qkv_, i * heads_ * width_, heads_, width_); };
  copy(c_, attention(c_, part(0), part(1), part(2)).o, result_);
}

DecodeWork::DecodeWork(BenchRank& rank, const WanVaeConfig& config, nn::Parameters& weights, const Shape& latents,
                       int64_t count, DType dtype)
    : c_(rank.c),
      decoder_(c_, config, weights, dtype),
      latents_(rank.random(latents.with(0, count), 4, DType::f32)),
      result_(c_.empty(
          {config.frames_of(count), config.spatial_factor() * latents[1], config.spatial_factor() * latents[2], 3},
          dtype, c_.request())) {}

void DecodeWork::run() {
  Scope once(c_.request());
  WanVaeDecoder::Stream stream(decoder_);
  int64_t at = 0;
  for (int64_t t = 0; t < latents_.dim(0); ++t) {
    Scope scope(c_.scratch());
    const Tensor some = stream.decode_next(c_, latents_.rows(t, t + 1));
    copy(c_, some, result_.rows(at, at + some.dim(0)));
    at += some.dim(0);
  }
}

}  // namespace zoetrope::cli
