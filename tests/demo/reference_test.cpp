// The demo model on its trained weights against diffusers' frames (tools/oracle/record_shapes.py), and prompts and
// sizes that it was not made for.
#include <gtest/gtest.h>

#include "demo/reference.h"
#include "demo/shapes.h"
#include "pipeline/prompt_ids.h"

namespace zoetrope::demo {
namespace {

TEST(Shapes, ReadThePromptsAsTheReferenceDoes) {
  const auto tokenizer = open_tokenizer(open_model_folder(model_folder));
  for (const ReferenceClip& clip : reference_clips()) {
    Request request;
    request.prompt = clip.prompt, request.negative_prompt = "", request.guidance_scale = 4;
    const PromptIds ids = encode_prompts(*tokenizer, request);
    EXPECT_EQ(ids.positive, clip.ids) << clip.prompt;
    EXPECT_EQ(ids.negative, clip.negative_ids);
  }
}

TEST(Shapes, DrawTheReferenceClips) {
  Engine engine(shapes_config());
  for (const ReferenceClip& clip : reference_clips()) {
    const Video video = make(engine, clip.ask()).video;
    ASSERT_EQ(clip.row.width, static_cast<int>(clip.shown.size()) * video.width);
    const double worst = clip.worst(video);
    EXPECT_GE(worst, 55) << clip.prompt;
    std::printf("worst frame %.1f dB: %s\n", worst, clip.prompt.c_str());
  }
}

Ask quick(const std::string& prompt) {
  Ask ask = shapes_ask(prompt, 5);
  ask.num_frames = 17, ask.steps = 4;
  return ask;
}

TEST(Shapes, CopeWithAPromptOutsideTheGrammarAndWithNone) {
  Engine engine(shapes_config());
  for (const char* prompt : {"an astronaut rides a horse through Zürich, 4k, award winning", "", "円が動く"}) {
    const Made made =
        make(engine, quick(prompt));  // values that are not finite, or a picture of one colour, would throw
    EXPECT_EQ(made.video.frames, 17);
    EXPECT_EQ(made.report.at("warnings"), Json::array()) << made.report.at("warnings");
  }
}

TEST(Shapes, WarnOfSizesAndLengthsTheyNeverSaw) {
  Engine engine(shapes_config());
  Ask ask = quick("a big red circle moves right on a white background");
  ask.width = 160, ask.height = 96;
  EXPECT_EQ(
      make(engine, ask).report.at("warnings"),
      Json({"160x96 and 17 frames: this model was trained on 128x128 and 17 to 33 frames, the result may not obey "
            "the prompt"}));
  ask = quick("a big red circle moves right on a white background");
  ask.num_frames = 5;
  const Made made = make(engine, ask);
  EXPECT_EQ(made.video.frames, 5);
  EXPECT_EQ(made.report.at("warnings").size(), 1u);
}

}  // namespace
}  // namespace zoetrope::demo
