// The trained demo model from token ids to frames on this device, against the reference's frames.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "demo/reference.h"
#include "pipeline/facts.h"
#include "pipeline/text_to_video.h"
#include "support/device_ctx.h"

namespace zoetrope {
namespace {

// As run.sh names it, or the repository's.
std::filesystem::path model_folder() {
  const char* told = std::getenv("MODEL");
  return told ? std::filesystem::path(told) : source_folder() / "models/shapes";
}

struct Kept final : FrameSink {
  Video video;
  void begin(int width, int height, int, int) override { video = {0, height, width, 0, {}}; }
  void frame(std::span<const uint8_t> rgb) override {
    ++video.frames;
    video.rgb.insert(video.rgb.end(), rgb.begin(), rgb.end());
  }
  void finish(const std::stop_token&) override {}
};

class Drawing {
 public:
  explicit Drawing(DType type)
      : source_(open_model_folder(model_folder())), pipeline_(dev_.c, source_, type, type, {}) {}

  Video draw(const demo::ReferenceClip& clip) {
    const Request request = resolve(clip.ask(), model_info(source_), clip.seed);
    Kept kept;
    pipeline_.run(dev_.c, request, scheduler_config(source_, request), {clip.ids, clip.negative_ids}, {}, kept);
    return std::move(kept.video);
  }

 private:
  DeviceCtx dev_;
  ModelSource source_;
  TextToVideo pipeline_;
};

void expect_clips(DType type, double bound) {
  Drawing drawing(type);
  for (const demo::ReferenceClip& clip : demo::reference_clips()) {
    const Video video = drawing.draw(clip);
    ASSERT_EQ(clip.row.width, static_cast<int>(clip.shown.size()) * video.width);
    const double worst = clip.worst(video);
    EXPECT_GE(worst, bound) << clip.prompt;
    std::printf("fidelity| shapes | %s | worst frame, dB, at least | %d x %dx%d | %.1f | %.0f |\n", clip.prompt.c_str(),
                video.frames, video.width, video.height, worst, bound);
    EXPECT_EQ(drawing.draw(clip).rgb, video.rgb) << "the same twice";
  }
}

TEST(ShapesOnDevice, DrawTheReferenceClipsInFp32) { expect_clips(DType::f32, 55); }
TEST(ShapesOnDevice, DrawTheReferenceClipsInBf16) { expect_clips(DType::bf16, 35); }

}  // namespace
}  // namespace zoetrope
