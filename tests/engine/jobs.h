// Toys as folders, small requests, and outputs that keep, throw or wait.
#pragma once
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "engine/engine.h"
#include "engine/toy.h"
#include "io/temp_folder.h"
#include "support/device.h"
#include "support/words.h"

namespace zoetrope {

inline const std::string programs = ZOETROPE_BINARY_DIR "/bin";  // zoetrope-mp4 lies here

// Made once a process.
inline std::filesystem::path toy_folder(const std::string& kind = "wan") {
  static const TempFolder folder;
  if (!std::filesystem::exists(folder / kind)) write_toy(kind, folder / kind, 0);
  return folder / kind;
}

inline EngineConfig toy_config(const std::string& kind = "wan") {
  EngineConfig config;
  config.model = toy_folder(kind);
  config.device = device::traits().device;
  config.threads = 2;
  return config;
}

inline Ask small_ask() {
  Ask ask;
  ask.prompt = "a cat";
  ask.width = 64, ask.height = 48, ask.num_frames = 5, ask.steps = 2, ask.seed = 7;
  return ask;
}

// Frames in memory; throws `error` instead of taking frame number `bad`.
class Kept : public Output {
 public:
  explicit Kept(std::shared_ptr<std::vector<uint8_t>> bytes = std::make_shared<std::vector<uint8_t>>())
      : bytes_(std::move(bytes)) {}
  Kept(int bad, std::exception_ptr error) : Kept() { bad_ = bad, error_ = std::move(error); }

  void describe(const Json&) override {}
  void begin(int, int, int, int) override {}
  void frame(std::span<const uint8_t> rgb) override {
    if (error_ && got_ == bad_) std::rethrow_exception(error_);
    ++got_;
    bytes_->insert(bytes_->end(), rgb.begin(), rgb.end());
  }
  void finish(const std::stop_token&) override {}
  Json facts() const override {
    Sha256 hash;
    hash.update(std::as_bytes(std::span(*bytes_)));
    return {{"sha256_frames", hash.hex()}};
  }

 private:
  std::shared_ptr<std::vector<uint8_t>> bytes_;
  int bad_ = -1, got_ = 0;
  std::exception_ptr error_;
};

inline Json run(Engine& engine, const Ask& ask) { return engine.submit(ask, std::make_unique<Kept>())->wait(); }
inline Json run_to(Engine& engine, const Ask& ask, const std::filesystem::path& target) {
  return engine.submit(ask, open_output(target, programs, ""))->wait();
}
inline std::string frames_hash(const Json& report) { return report.at("output").at("sha256_frames"); }
inline std::string frames_hash(Engine& engine, const Ask& ask) { return frames_hash(run(engine, ask)); }

// What a fresh engine gives.
inline std::string fresh_hash(const EngineConfig& config, const Ask& ask) {
  Engine engine(config);
  return frames_hash(engine, ask);
}

inline std::vector<uint8_t> frames_of(Engine& engine, const Ask& ask) {
  auto bytes = std::make_shared<std::vector<uint8_t>>();
  engine.submit(ask, std::make_unique<Kept>(bytes))->wait();
  return *bytes;
}

}  // namespace zoetrope
