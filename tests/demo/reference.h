// The reference clips of the demo model: diffusers in fp32 on a CPU, eight frames of each side by side
// (tools/oracle/record_shapes.py).
#pragma once
#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/request.h"
#include "eval/compare.h"
#include "io/image.h"
#include "io/video.h"
#include "support/source_folder.h"

namespace zoetrope::demo {

struct ReferenceClip {
  std::string prompt;
  uint64_t seed = 0;
  std::vector<int32_t> ids, negative_ids;  // of the prompt and of the empty one
  std::vector<int> shown;                  // which frames
  Image row;

  // As they were made: the draft preset.
  Ask ask() const {
    Ask ask;
    ask.prompt = prompt, ask.seed = seed, ask.preset = "draft";
    return ask;
  }

  // The least PSNR of the frames that are recorded, dB.
  double worst(const Video& video) const {
    double least = std::numeric_limits<double>::infinity();
    for (size_t cell = 0; cell < shown.size(); ++cell) least = std::min(least, frame(video, cell));
    return least;
  }

 private:
  double frame(const Video& video, size_t cell) const {
    const auto line = static_cast<size_t>(video.width) * 3, size = line * static_cast<size_t>(video.height);
    std::vector<uint8_t> picture;
    for (size_t y = 0; y < static_cast<size_t>(video.height); ++y) {
      const auto from = row.rgb.begin() + static_cast<std::ptrdiff_t>((y * shown.size() + cell) * line);
      picture.insert(picture.end(), from, from + static_cast<std::ptrdiff_t>(line));
    }
    return psnr(std::span(video.rgb).subspan(static_cast<size_t>(shown[cell]) * size, size), picture);
  }
};

inline std::vector<ReferenceClip> reference_clips() {
  const std::filesystem::path folder = carried("tests/demo/reference");
  const Json record = read_json(folder / "clips.json");
  std::vector<ReferenceClip> clips;
  for (const Json& from : record.at("clips")) {
    ReferenceClip clip;
    clip.prompt = from.at("prompt"), clip.seed = from.at("seed");
    clip.ids = from.at("ids").get<std::vector<int32_t>>();
    clip.negative_ids = record.at("negative_ids").get<std::vector<int32_t>>();
    clip.shown = record.at("frames").get<std::vector<int>>();
    clip.row = read_png(folder / (std::to_string(clips.size()) + ".png"));
    clips.push_back(std::move(clip));
  }
  return clips;
}

}  // namespace zoetrope::demo
