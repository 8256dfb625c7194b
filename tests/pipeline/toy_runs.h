// Small requests on toys, and a sink that keeps the frames.
#pragma once
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "io/tokenizer.h"
#include "pipeline/facts.h"
#include "pipeline/text_to_video.h"
#include "support/cpu_ctx.h"
#include "support/toy.h"

namespace zoetrope {

struct Frames final : FrameSink {
  int width = 0, height = 0, announced = 0, got = 0;
  bool finished = false;
  std::vector<uint8_t> bytes;

  void begin(int w, int h, int frames, int) override { width = w, height = h, announced = frames; }
  void frame(std::span<const uint8_t> rgb) override {
    ++got;
    bytes.insert(bytes.end(), rgb.begin(), rgb.end());
  }
  void finish(const std::stop_token&) override { finished = true; }
};

// 64x48, 9 frames, 2 steps, unless asked otherwise.
inline Request toy_request(const ModelSource& source, Ask ask) {
  ask.width = ask.width.value_or(64), ask.height = ask.height.value_or(48);
  ask.num_frames = ask.num_frames.value_or(9), ask.steps = ask.steps.value_or(2);
  return resolve(ask, model_info(source), 1);
}

// Weights stand in for a bad checkpoint: one NaN in the middle.
inline void spoil(const Region& weights) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  device::write(&nan, {static_cast<float*>(weights.data()) + weights.used() / sizeof(float) / 2, {1}, DType::f32});
}

inline RunFacts run_toy(Ctx& c, TextToVideo& pipeline, const ModelSource& source, const Request& request,
                        const Hooks& hooks, FrameSink& sink) {
  const auto tokenizer = Tokenizer::open(toy_configs("tokenizer"));
  return pipeline.run(c, request, scheduler_config(source, request), encode_prompts(*tokenizer, request), hooks, sink);
}

}  // namespace zoetrope
