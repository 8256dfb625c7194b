// Outputs are tried before anything is loaded, appear whole, and leave nothing when they are dropped.
#include "engine/output.h"

#include <gtest/gtest.h>

#include "engine/contact_sheet.h"
#include "engine/jobs.h"
#include "io/image.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

std::string refusal(const fs::path& target, const fs::path& program_folder = programs) {
  return words([&] { open_output(target, program_folder, ""); });
}

TEST(Outputs, AreRefusedByTheirWords) {
  const TempFolder folder;
  const std::string here = folder.path().string();
  EXPECT_EQ(refusal(""), "out: no name given; use FILE.mp4, FILE.safetensors or a folder for PNG files");
  for (const char* name : {".", "./", "..", "/"})
    EXPECT_EQ(refusal(name), cat("out: ", name, " is no name for a new folder; give the frames one of their own"));
  EXPECT_EQ(refusal("-"),
            "out: a video is not written to standard output; use FILE.mp4, FILE.safetensors or a folder for PNG files "
            "(./- for one of that name)");
  for (const char* kind : {"x.mp4", "x.safetensors", "frames", "frames/"})
    EXPECT_EQ(refusal(folder.path() / "none" / kind), "out: " + here + "/none is not a folder; make it first");
  EXPECT_EQ(refusal("/proc/x.mp4"), "out: /proc/x.mp4: cannot be written: No such file or directory");
  EXPECT_EQ(refusal("/proc/frames"), "out: /proc/frames: cannot be written: No such file or directory");
  EXPECT_EQ(refusal(folder / "x.avi"), "out: " + here +
                                           "/x.avi: files of kind .avi are not written; use .mp4, .safetensors, or a "
                                           "folder for PNG files (end its name with a slash)");
  for (const char* ending : {".mp4", ".safetensors", ".frames"})
    EXPECT_EQ(refusal(folder / ending), cat("out: ", here, "/", ending, " is an ending without a name; use FILE",
                                            ending, ", or end it with a slash for a folder of PNG files"));
  EXPECT_EQ(refusal(folder / ".frames/"), "no error");
  fs::create_directory(folder / "y.mp4");
  EXPECT_EQ(refusal(folder / "y.mp4"), "out: " + here + "/y.mp4 is a folder; for PNG files end its name with a slash");
  EXPECT_EQ(refusal("/dev/null"), "out: /dev/null: is no folder; name another");
  EXPECT_EQ(words([] { ContactSheet(std::make_unique<Kept>(), "s.jpg"); }),
            "contact-sheet: s.jpg is no .png; name a PNG file");
  folder.put("mine/notes.txt", "keep me");
  EXPECT_EQ(refusal(folder / "mine"), "out: " + here + "/mine: exists and holds more than frames; name another folder");
  EXPECT_EQ(refusal(folder / (std::string(300, 'x') + ".mp4")),
            "out: " + here + "/" + std::string(300, 'x') + ".mp4: cannot be written: File name too long");
  EXPECT_EQ(folder.count(), 2u);  // the two made here
}

TEST(Outputs, WantTheEncoderBeforeAnythingElse) {
  const TempFolder folder, bin;
  EXPECT_EQ(refusal(folder / "x.mp4", bin.path()),
            "mp4: zoetrope-mp4 is neither in " + bin.path().string() +
                " nor on PATH; build it (CMake option ZOETROPE_MP4, needs FFmpeg's libraries) or write a folder of PNG "
                "frames");
  EXPECT_EQ(refusal(folder / "x.safetensors", bin.path()), "no error");
  EXPECT_EQ(folder.count(), 0u);
}

TEST(Outputs, LeaveNothingUntilTheyAreFinished) {
  const TempFolder folder;
  const std::vector<uint8_t> frame(16 * 16 * 3, 7);
  for (const char* name : {"x.mp4", "x.safetensors", "frames"}) {
    {
      const auto output = open_output(folder / name, programs, "");
      EXPECT_EQ(folder.count(), 0u) << name;
      output->describe({{"seed", 1}});
      output->begin(16, 16, 2, 16);
      output->frame(frame);
      EXPECT_FALSE(fs::exists(folder / name)) << name;
    }
    EXPECT_EQ(folder.count(), 0u) << name;
  }
}

// `frames` frames of 16x8, number i in grey 10 i.
Video sheet_of(int frames) {
  const TempFolder folder;
  fs::create_directory(folder / "sheet");
  ContactSheet sheet(std::make_unique<Kept>(), folder / "sheet/frame_0000.png");
  sheet.begin(16, 8, frames, 16);
  for (int i = 0; i < frames; ++i) sheet.frame(std::vector<uint8_t>(16 * 8 * 3, static_cast<uint8_t>(10 * i)));
  sheet.finish({});
  return read_frame_folder(folder / "sheet");
}

TEST(Outputs, LayEightFramesOnASheetOrAsManyAsThereAre) {
  const Video eight = sheet_of(17);
  EXPECT_EQ((std::pair(eight.width, eight.height)), (std::pair(4 * 18 - 2, 2 * 10 - 2)));
  EXPECT_EQ(eight.rgb.front(), 0);
  EXPECT_EQ(eight.rgb.back(), 160);  // the last frame
  for (const int frames : {1, 5, 7}) {
    const Video few = sheet_of(frames);
    EXPECT_EQ((std::pair(few.width, few.height)), (std::pair(frames * 18 - 2, 8))) << frames;
    EXPECT_EQ(few.rgb.back(), 10 * (frames - 1));
  }
}

TEST(Outputs, ReplaceWhatStoodThere) {
  const TempFolder folder;
  const std::vector<uint8_t> frame(16 * 16 * 3, 7);
  for (const char* name : {"x.mp4", "x.safetensors", "frames/"})
    for (int frames : {2, 1}) {
      const auto output = open_output(folder / name, programs, "");
      output->describe({{"seed", 1}});
      output->begin(16, 16, frames, 16);
      for (int i = 0; i < frames; ++i) output->frame(frame);
      output->finish({});
      EXPECT_EQ(output->facts().at("num_frames"), frames);
    }
  EXPECT_EQ(folder.count(), 3u);
  EXPECT_FALSE(fs::exists(folder / "frames/frame_0001.png"));
}

TEST(Outputs, CanBeCleanedUpInAHurry) {
  const TempFolder folder;
  const std::vector<uint8_t> frame(16 * 16 * 3, 7);
  for (const char* name : {"x.safetensors", "frames/"}) {
    const auto output = open_output(folder / name, programs, "");
    output->describe({{"seed", 1}});
    output->begin(16, 16, 2, 16);
    output->frame(frame);
    EXPECT_EQ(folder.count(), 1u) << name;
    remove_partial(folder / name);
    EXPECT_EQ(folder.count(), 0u) << name;
  }
}

}  // namespace
}  // namespace zoetrope
