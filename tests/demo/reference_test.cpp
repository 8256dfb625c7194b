// The demo model on its trained weights against diffusers' frames (tools/oracle/record_shapes.py), and prompts and
// sizes that it was not made for.
#include <gtest/gtest.h>

#include <span>

#include "demo/shapes.h"
#include "eval/compare.h"
#include "io/image.h"
#include "pipeline/prompt_ids.h"

namespace zoetrope::demo {
namespace {

const std::string references = ZOETROPE_SOURCE_DIR "/tests/demo/reference/";

// PSNR of frame `at` of the video and picture `cell` of a row of pictures, dB.
double frame_psnr(const Video& video, int at, const Image& row, int cell) {
  const auto line = static_cast<size_t>(video.width) * 3, frame = line * static_cast<size_t>(video.height);
  std::vector<uint8_t> picture;
  for (int y = 0; y < video.height; ++y) {
    const auto from = row.rgb.begin() + (y * row.width + cell * video.width) * 3;
    picture.insert(picture.end(), from, from + static_cast<std::ptrdiff_t>(line));
  }
  return psnr(std::span(video.rgb).subspan(static_cast<size_t>(at) * frame, frame), picture);
}

TEST(Shapes, ReadThePromptsAsTheReferenceDoes) {
  const Json record = read_json(references + "clips.json");
  const auto tokenizer = open_tokenizer(open_model_folder(model_folder));
  for (const Json& clip : record.at("clips")) {
    Request request;
    request.prompt = clip.at("prompt"), request.negative_prompt = "", request.guidance_scale = 4;
    const PromptIds ids = encode_prompts(*tokenizer, request);
    EXPECT_EQ(Json(ids.positive), clip.at("ids")) << request.prompt;
    EXPECT_EQ(Json(ids.negative), record.at("negative_ids"));
  }
}

TEST(Shapes, DrawTheReferenceClips) {
  const Json record = read_json(references + "clips.json");
  Engine engine(shapes_config());
  for (size_t n = 0; n < record.at("clips").size(); ++n) {
    const Json& clip = record.at("clips")[n];
    Ask ask = shapes_ask(clip.at("prompt"), clip.at("seed"));
    ask.preset = "draft";
    const Video video = make(engine, ask).video;
    const Image row = read_png(references + std::to_string(n) + ".png");
    ASSERT_EQ(row.width, 8 * video.width);
    double worst = 1000;
    for (int cell = 0; cell < 8; ++cell)
      worst = std::min(worst, frame_psnr(video, record.at("frames")[static_cast<size_t>(cell)], row, cell));
    EXPECT_GE(worst, 55) << clip.at("prompt");
    std::printf("clip %zu: worst frame %.1f dB\n", n, worst);
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
