#include "engine/contact_sheet.h"

#include <algorithm>

#include "base/error.h"
#include "io/image.h"

namespace zoetrope {
namespace {

constexpr int cells = ContactSheet::columns * ContactSheet::rows;

int sheet_width(int width) { return ContactSheet::columns * (width + ContactSheet::gap) - ContactSheet::gap; }
int sheet_height(int height) { return ContactSheet::rows * (height + ContactSheet::gap) - ContactSheet::gap; }

}  // namespace

ContactSheet::ContactSheet(std::unique_ptr<Output> video, std::filesystem::path sheet)
    : video_(std::move(video)), file_(std::move(sheet)) {
  require(file_.extension() == ".png", "sheet: ", file_.string(), " is no .png");
}

void ContactSheet::begin(int width, int height, int frames, int fps) {
  width_ = width, height_ = height, frames_ = frames;
  sheet_.assign(static_cast<size_t>(sheet_width(width)) * sheet_height(height) * 3, 255);
  video_->begin(width, height, frames, fps);
}

// Evenly spread, first and last among them; a clip of fewer frames leaves cells white.
bool ContactSheet::picked(int frame) const {
  if (cell_ == cells) return false;
  if (frames_ <= cells) return true;
  return frame == (cell_ * (frames_ - 1) + (cells - 1) / 2) / (cells - 1);
}

void ContactSheet::place(std::span<const uint8_t> rgb, int cell) {
  const size_t line = static_cast<size_t>(width_) * 3, stride = static_cast<size_t>(sheet_width(width_)) * 3;
  const size_t top = static_cast<size_t>(cell / columns) * (height_ + gap);
  const size_t left = static_cast<size_t>(cell % columns) * (width_ + gap) * 3;
  for (int y = 0; y < height_; ++y)
    std::copy_n(rgb.begin() + static_cast<std::ptrdiff_t>(y * line), line,
                sheet_.begin() + static_cast<std::ptrdiff_t>((top + y) * stride + left));
}

void ContactSheet::frame(std::span<const uint8_t> rgb) {
  if (picked(seen_)) place(rgb, cell_++);
  ++seen_;
  video_->frame(rgb);
}

void ContactSheet::finish(const std::stop_token& stop) {
  video_->finish(stop);
  write_png(file_, sheet_, sheet_width(width_), sheet_height(height_));
}

Json ContactSheet::facts() const {
  Json facts = video_->facts();
  facts["contact_sheet"] = file_.string();
  return facts;
}

}  // namespace zoetrope
