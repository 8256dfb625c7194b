// PNG images and folders of them. Pixels are 8-bit RGB, [H, W, 3]; other kinds of PNG are converted when read (16 bits
// to 8, grey and palettes to RGB, transparency over black).
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/video.h"

namespace zoetrope {

struct Image {
  int height = 0, width = 0;
  std::vector<uint8_t> rgb;
};

std::string encode_png(std::span<const uint8_t> rgb, int width, int height);  // the same pixels give the same bytes
Image decode_png(std::string_view bytes, std::string_view where);             // Error(invalid) says why not
void write_png(const std::filesystem::path& file, std::span<const uint8_t> rgb, int width, int height);
Image read_png(const std::filesystem::path& file);

// Writes frame_0000.png, frame_0001.png, ... The folder appears under its name when finish() returns, or not at all;
// one that is there already is replaced if it holds nothing but such frames, and refused otherwise.
class FrameFolder {
 public:
  explicit FrameFolder(std::filesystem::path folder);
  FrameFolder(const FrameFolder&) = delete;
  FrameFolder& operator=(const FrameFolder&) = delete;
  ~FrameFolder();

  void add(std::span<const uint8_t> rgb, int width, int height);
  void finish();

 private:
  std::filesystem::path target_, part_;
  int count_ = 0;
  bool finished_ = false;
};

// The frames of such a folder, in order; Error(invalid) names the first that is missing or of another size.
Video read_frame_folder(const std::filesystem::path& folder);

}  // namespace zoetrope
