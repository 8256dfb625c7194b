// Eight frames of a video on one picture, two rows of four, written beside the video itself. A video of fewer frames
// has all of them in one row.
#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "engine/output.h"

namespace zoetrope {

class ContactSheet final : public Output {
 public:
  // Passes everything on to `video`; `sheet` is a PNG.
  ContactSheet(std::unique_ptr<Output> video, std::filesystem::path sheet);

  void describe(const Json& recipe) override { video_->describe(recipe); }
  void begin(int width, int height, int frames, int fps) override;
  void frame(std::span<const uint8_t> rgb) override;
  void finish(const std::stop_token& stop) override;
  Json facts() const override;

 private:
  int cells() const { return columns_ * rows_; }
  int sheet_width() const;
  int sheet_height() const;
  bool picked(int frame) const;
  void place(std::span<const uint8_t> rgb, int cell);

  std::unique_ptr<Output> video_;
  std::filesystem::path file_;
  int columns_ = 0, rows_ = 0, width_ = 0, height_ = 0, frames_ = 0, seen_ = 0, cell_ = 0;
  std::vector<uint8_t> sheet_;  // [rows of cells, columns of cells], RGB
};

}  // namespace zoetrope
