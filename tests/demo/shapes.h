// The demo model of this repository, run as a user would.
#pragma once
#include <memory>
#include <vector>

#include "demo/measure.h"
#include "engine/engine.h"

namespace zoetrope::demo {

inline const std::filesystem::path model_folder = ZOETROPE_SOURCE_DIR "/models/shapes";

inline EngineConfig shapes_config() {
  EngineConfig config;
  config.model = model_folder;
  return config;
}

inline Ask shapes_ask(const std::string& prompt, uint64_t seed) {
  Ask ask;
  ask.prompt = prompt, ask.seed = seed;
  return ask;
}

class ClipOutput : public Output {
 public:
  explicit ClipOutput(Video& clip) : clip_(clip) {}
  void describe(const Json&) override {}
  void begin(int width, int height, int frames, int) override { clip_ = {frames, height, width, 0, {}}; }
  void frame(std::span<const uint8_t> rgb) override { clip_.rgb.insert(clip_.rgb.end(), rgb.begin(), rgb.end()); }
  void finish(const std::stop_token&) override {}
  Json facts() const override { return Json::object(); }

 private:
  Video& clip_;
};

struct Made {
  Video video;
  Json report;
};

inline Made make(Engine& engine, const Ask& ask) {
  Made made;
  made.report = engine.submit(ask, std::make_unique<ClipOutput>(made.video))->wait();
  return made;
}

}  // namespace zoetrope::demo
