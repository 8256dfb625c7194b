#include "io/image.h"

#include <gtest/gtest.h>

#include "io/temp_folder.h"
#include "support/words.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

std::vector<uint8_t> pattern(int width, int height, int seed = 0) {
  std::vector<uint8_t> rgb(3 * static_cast<size_t>(width * height));
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(i * 7 + static_cast<size_t>(seed));
  return rgb;
}

TEST(Png, GivesBackItsPixels) {
  const TempFolder folder;
  const auto rgb = pattern(5, 3);
  write_png(folder / "x.png", rgb, 5, 3);
  const Image image = read_png(folder / "x.png");
  EXPECT_EQ(image.width, 5);
  EXPECT_EQ(image.height, 3);
  EXPECT_EQ(image.rgb, rgb);
  EXPECT_EQ(encode_png(rgb, 5, 3), read_file(folder / "x.png", 1000));
}

TEST(Png, RefusesWhatIsNone) {
  EXPECT_EQ(words([] { decode_png("", "x.png"); }), "x.png: is empty; download it again");
  EXPECT_EQ(words([] { decode_png("GIF89a..............", "x.png"); }), "x.png: not a PNG image: Not a PNG file");
  EXPECT_EQ(words([] { decode_png("version https://git-lfs.github.com/spec/v1\n", "x.png"); }),
            "x.png: is a git-lfs pointer, run `git lfs pull`");
  std::string bytes = encode_png(pattern(64, 64), 64, 64);
  const std::string cut = words([&] { decode_png(std::string_view(bytes).substr(0, bytes.size() / 2), "x.png"); });
  EXPECT_TRUE(cut.starts_with("x.png: a damaged PNG image: ")) << cut;
  bytes[16] = 0x7F;  // width 2^31 - 2^24 + 64
  EXPECT_TRUE(words([&] { decode_png(bytes, "x.png"); }).starts_with("x.png: "));
}

TEST(FrameFolder, AppearsWholeOrNotAtAll) {
  const TempFolder folder;
  const fs::path target = folder / "frames";
  {
    FrameFolder dropped(target);
    dropped.add(pattern(4, 2), 4, 2);
  }
  EXPECT_EQ(folder.count(), 0u);
  FrameFolder frames(target);
  frames.add(pattern(4, 2, 1), 4, 2);
  frames.add(pattern(4, 2, 2), 4, 2);
  EXPECT_FALSE(fs::exists(target));
  frames.finish();
  const Video video = read_frame_folder(target);
  EXPECT_EQ(video.frames, 2);
  EXPECT_EQ(video.width, 4);
  EXPECT_EQ(std::vector<uint8_t>(video.rgb.begin() + 24, video.rgb.end()), pattern(4, 2, 2));
  EXPECT_EQ(folder.count(), 1u);
}

TEST(FrameFolder, ReplacesFramesAndNothingElse) {
  const TempFolder folder;
  const fs::path target = folder / "frames";
  for (const int count : {3, 1}) {
    FrameFolder frames(target.string() + "/");
    for (int i = 0; i < count; ++i) frames.add(pattern(2, 2), 2, 2);
    frames.finish();
    EXPECT_EQ(read_frame_folder(target).frames, count);
  }
  EXPECT_EQ(folder.count(), 1u);
  {
    FrameFolder frames(target);
    frames.add(pattern(2, 2), 2, 2);
    folder.put("frames/notes.txt", "mine");
    EXPECT_EQ(words([&] { frames.finish(); }),
              target.string() + ": holds more than frames by now; name another folder");
  }
  EXPECT_TRUE(fs::exists(target / "notes.txt"));
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_EQ(words([&] { FrameFolder again(target); }),
            target.string() + ": exists and holds more than frames; name another folder");
  EXPECT_EQ(words([&] { FrameFolder again("/nowhere/frames"); }),
            "/nowhere/frames: cannot be written: No such file or directory");
}

TEST(FrameFolder, NamesAMissingOrOddFrame) {
  const TempFolder folder;
  const std::string where = folder.path().string();
  EXPECT_EQ(words([&] { read_frame_folder(folder.path()); }), where + ": no frame_0000.png here");
  write_png(folder / "frame_0000.png", pattern(2, 2), 2, 2);
  write_png(folder / "frame_0002.png", pattern(2, 2), 2, 2);
  EXPECT_EQ(words([&] { read_frame_folder(folder.path()); }), where + ": frame_0001.png is missing");
  write_png(folder / "frame_0001.png", pattern(2, 4), 2, 4);
  EXPECT_EQ(words([&] { read_frame_folder(folder.path()); }),
            where + "/frame_0001.png: 2x4, but the first frame is 2x2");
}

}  // namespace
}  // namespace zoetrope
