#include "engine/contact_sheet.h"

#include <algorithm>

#include "base/error.h"
#include "io/image.h"

namespace zoetrope {
namespace {

constexpr int most_columns = 4, most_rows = 2, gap = 2;  // gap: white pixels between frames

}  // namespace

int ContactSheet::sheet_width() const { return columns_ * (width_ + gap) - gap; }
int ContactSheet::sheet_height() const { return rows_ * (height_ + gap) - gap; }

ContactSheet::ContactSheet(std::unique_ptr<Output> video, std::filesystem::path sheet)
    : video_(std::move(video)), file_(std::move(sheet)) {
  require(file_.extension() == ".png", "contact-sheet: ", file_.string(), " is no .png; name a PNG file");
}

void ContactSheet::begin(int width, int height, int frames, int fps) {
  width_ = width, height_ = height, frames_ = frames;
  const bool full = frames >= most_columns * most_rows;
  columns_ = full ? most_columns : frames, rows_ = full ? most_rows : 1;
  sheet_.assign(static_cast<size_t>(sheet_width()) * sheet_height() * 3, 255);
  video_->begin(width, height, frames, fps);
}

// Evenly spread, first and last among them.
bool ContactSheet::picked(int frame) const {
  if (cell_ == cells()) return false;
  if (frames_ == cells()) return true;
  return frame == (cell_ * (frames_ - 1) + (cells() - 1) / 2) / (cells() - 1);
}

void ContactSheet::place(std::span<const uint8_t> rgb, int cell) {
  const size_t line = static_cast<size_t>(width_) * 3, stride = static_cast<size_t>(sheet_width()) * 3;
  const size_t top = static_cast<size_t>(cell / columns_) * (height_ + gap);
  const size_t left = static_cast<size_t>(cell % columns_) * (width_ + gap) * 3;
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
  write_png(file_, sheet_, sheet_width(), sheet_height());
}

Json ContactSheet::facts() const {
  Json facts = video_->facts();
  facts["contact_sheet"] = file_.string();
  return facts;
}

}  // namespace zoetrope
