// What a run tells its caller, and how the caller stops it. Looked at between steps and between decoded chunks.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>

#include "core/stop.h"

namespace zoetrope {

enum class Stage : uint8_t { load, text_encode, denoise, vae_decode, encode };
const char* name(Stage stage);

struct Progress {
  Stage stage = Stage::load;
  int done = 0, total = 0;  // steps, frames, parts; a stage without a measure begins at 0 of 0 and ends at 1 of 1
  double seconds = 0;       // since the stage began
  std::string note{};       // to be said once; then the rest says nothing
};

struct Hooks {
  std::stop_token stop;
  std::function<void(const Progress&)> progress;  // may be empty; called in one thread at a time, not always the same

  void check() const { check_stop(stop); }
  void report(const Progress& now) const {
    if (progress) progress(now);
  }
};

// Receives the video behind the decoder, frame by frame, in order.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual void begin(int width, int height, int frames, int fps) = 0;
  // [H, W, 3]; copied before it returns. Called in another thread than the rest, which waits for it or goes on without.
  virtual void frame(std::span<const uint8_t> rgb) = 0;
  // The result is readable under its name when this returns; Error(cancelled) if asked to stop before.
  virtual void finish(const std::stop_token& stop) = 0;
};

// For dry runs, and for the ranks that get no frames.
class NoFrames final : public FrameSink {
 public:
  void begin(int, int, int, int) override {}
  void frame(std::span<const uint8_t>) override {}
  void finish(const std::stop_token&) override {}
};

}  // namespace zoetrope
