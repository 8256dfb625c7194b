#include "io/image.h"

#include <fcntl.h>
#include <png.h>

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "io/recognise.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

constexpr size_t max_png_bytes = 256u << 20;
constexpr uint64_t max_pixels = 1u << 28;  // 16384 x 16384

// libpng's plain interface: no long jumps, errors as text.
struct Png {
  png_image image{};
  Png() { image.version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(&image); }
};

std::string frame_name(int number) {
  char name[32];
  std::snprintf(name, sizeof name, "frame_%04d.png", number);
  return name;
}

bool is_frame_name(const std::string& name) {
  return name.starts_with("frame_") && name.ends_with(".png") && name.size() >= 14 &&
         std::all_of(name.begin() + 6, name.end() - 4, [](char c) { return c >= '0' && c <= '9'; });
}

bool holds_only_frames(const fs::path& folder) {
  return fs::is_directory(folder) && std::ranges::all_of(fs::directory_iterator(folder), fs::directory_iterator(),
                                                         [](const fs::directory_entry& entry) {
                                                           return is_frame_name(entry.path().filename().string());
                                                         });
}

// At no moment is there nothing under the second name, where the file system can do that; one that cannot gets three
// renames, and the old folder back if the second fails.
void swap_names(const fs::path& one, const fs::path& two, std::error_code& error) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, two.c_str(), RENAME_EXCHANGE) == 0) return;
  fs::path aside = one;
  aside += "-old";
  std::error_code ignored;
  fs::rename(two, aside, error);
  if (error) return;
  fs::rename(one, two, error);
  fs::rename(aside, error ? two : one, ignored);
}

}  // namespace

std::string encode_png(std::span<const uint8_t> rgb, int width, int height) {
  assert(rgb.size() == 3 * static_cast<size_t>(width) * static_cast<size_t>(height));
  Png png;
  png.image.width = static_cast<png_uint_32>(width);
  png.image.height = static_cast<png_uint_32>(height);
  png.image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png.image);
  std::string bytes(size, '\0');
  if (!png_image_write_to_memory(&png.image, bytes.data(), &size, 0, rgb.data(), 0, nullptr))
    fail(Code::device, "png: ", png.image.message);
  bytes.resize(size);
  return bytes;
}

Image decode_png(std::string_view bytes, std::string_view where) {
  const std::string known = foreign_file(std::as_bytes(std::span(bytes.data(), bytes.size())));
  require(known.empty(), where, ": ", known);
  Png png;
  require(png_image_begin_read_from_memory(&png.image, bytes.data(), bytes.size()), where,
          ": not a PNG image: ", png.image.message);
  require(uint64_t{png.image.width} * png.image.height <= max_pixels, where, ": an image of ", png.image.width, "x",
          png.image.height, " is too large");
  png.image.format = PNG_FORMAT_RGB;
  png.image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16 bits without a stated gamma are sRGB like all others
  Image image{static_cast<int>(png.image.height), static_cast<int>(png.image.width), {}};
  image.rgb.resize(PNG_IMAGE_SIZE(png.image));
  const png_color black{0, 0, 0};
  require(png_image_finish_read(&png.image, &black, image.rgb.data(), 0, nullptr), where,
          ": a damaged PNG image: ", png.image.message);
  return image;
}

void write_png(const fs::path& file, std::span<const uint8_t> rgb, int width, int height) {
  write_file(file, encode_png(rgb, width, height));
}

Image read_png(const fs::path& file) { return decode_png(read_file(file, max_png_bytes), file.string()); }

FrameFolder::FrameFolder(fs::path folder) : target_(std::move(folder)) {
  target_ = followed(target_.has_filename() ? target_ : target_.parent_path());  // "frames/"
  require(!fs::exists(target_) || fs::is_directory(target_), target_.string(), ": is no folder; name another");
  require(!fs::exists(target_) || holds_only_frames(target_), target_.string(),
          ": exists and holds more than frames; name another folder");
  part_ = part_of(target_);
  std::error_code error;
  fs::remove_all(part_, error);
  fs::create_directory(part_, error);
  require(!error, target_.string(), ": cannot be written: ", error.message());
}

FrameFolder::~FrameFolder() {
  std::error_code ignored;
  if (!finished_) fs::remove_all(part_, ignored);
}

void FrameFolder::add(std::span<const uint8_t> rgb, int width, int height) {
  const std::string name = frame_name(count_);
  write_file(part_ / name, encode_png(rgb, width, height), target_ / name);
  ++count_;
}

void FrameFolder::finish() {
  std::error_code error;
  if (!fs::exists(target_)) {
    fs::rename(part_, target_, error);
  } else {
    require(holds_only_frames(target_), target_.string(), ": holds more than frames by now; name another folder");
    swap_names(part_, target_, error);
  }
  require(!error, target_.string(), ": cannot be written: ", error.message());
  finished_ = true;
  fs::remove_all(part_, error);  // the older frames, if there were any
}

Video read_frame_folder(const fs::path& folder) {
  require(fs::is_directory(folder), folder.string(), ": no such folder");
  Video video;
  for (; fs::exists(folder / frame_name(video.frames)); ++video.frames) {
    const Image image = read_png(folder / frame_name(video.frames));
    if (video.frames == 0) video.height = image.height, video.width = image.width;
    require(image.height == video.height && image.width == video.width, (folder / frame_name(video.frames)).string(),
            ": ", image.width, "x", image.height, ", but the first frame is ", video.width, "x", video.height);
    video.rgb.insert(video.rgb.end(), image.rgb.begin(), image.rgb.end());
  }
  require(video.frames > 0, folder.string(), ": no ", frame_name(0), " here");
  const auto all =
      std::ranges::count_if(fs::directory_iterator(folder), fs::directory_iterator(),
                            [](const auto& entry) { return is_frame_name(entry.path().filename().string()); });
  require(all == video.frames, folder.string(), ": ", frame_name(video.frames), " is missing");
  return video;
}

}  // namespace zoetrope
