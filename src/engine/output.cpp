#include "engine/output.h"

#include <unistd.h>

#include <optional>

#include "base/error.h"
#include "base/sha256.h"
#include "io/image.h"
#include "io/mp4.h"
#include "io/safetensors.h"

namespace zoetrope {
namespace {

// What all kinds share: the hash of the frames and the facts of the report.
class Hashed : public Output {
 public:
  explicit Hashed(std::filesystem::path target) : target_(std::move(target)) {}

  void describe(const Json& recipe) override { recipe_ = recipe.dump(); }
  void begin(int width, int height, int frames, int fps) override {
    width_ = width, height_ = height, frames_ = frames, fps_ = fps;
    open();
  }
  void frame(std::span<const uint8_t> rgb) override {
    hash_.update(std::as_bytes(rgb));
    put(rgb);
  }
  void finish() override {
    close();
    facts_ = {{"path", target_.string()}, {"width", width_}, {"height", height_},
              {"num_frames", frames_},    {"fps", fps_},     {"sha256_frames", hash_.hex()}};
  }
  Json facts() const override { return facts_; }

 protected:
  virtual void open() = 0;
  virtual void put(std::span<const uint8_t> rgb) = 0;
  virtual void close() = 0;

  std::filesystem::path target_;
  std::string recipe_;
  int width_ = 0, height_ = 0, frames_ = 0, fps_ = 0;

 private:
  Sha256 hash_;
  Json facts_;
};

class Mp4Output final : public Hashed {
 public:
  Mp4Output(const std::filesystem::path& target, std::filesystem::path helper)
      : Hashed(target), helper_(std::move(helper)) {}

 private:
  void open() override { writer_.emplace(target_, helper_, Mp4Options{width_, height_, frames_, fps_, recipe_}); }
  void put(std::span<const uint8_t> rgb) override { writer_->add(rgb); }
  void close() override { writer_->finish(); }

  std::filesystem::path helper_;
  std::optional<Mp4Writer> writer_;
};

class PngOutput final : public Hashed {
 public:
  explicit PngOutput(const std::filesystem::path& target)
      : Hashed(target.has_filename() ? target : target.parent_path()) {}

 private:
  void open() override { writer_.emplace(target_); }
  void put(std::span<const uint8_t> rgb) override { writer_->add(rgb, width_, height_); }
  void close() override { writer_->finish(); }

  std::optional<FrameFolder> writer_;
};

class TensorOutput final : public Hashed {
 public:
  using Hashed::Hashed;

 private:
  void open() override {
    const std::vector<TensorSpec> specs = {{"frames", DType::u8, Shape{frames_, height_, width_, 3}}};
    writer_.emplace(target_, specs, Metadata{{"zoetrope", recipe_}, {"fps", cat(fps_)}});
  }
  void put(std::span<const uint8_t> rgb) override { writer_->write("frames", std::as_bytes(rgb)); }
  void close() override { writer_->commit(); }

  std::optional<SafetensorsWriter> writer_;
};

void check_writable(const std::filesystem::path& target) {
  const auto full = std::filesystem::absolute(target);
  const auto folder = full.has_filename() ? full.parent_path() : full.parent_path().parent_path();
  require(std::filesystem::is_directory(folder), "out: ", folder.string(), " is not a folder");
  require(::access(folder.c_str(), W_OK) == 0, "out: ", folder.string(), " cannot be written");
}

}  // namespace

std::unique_ptr<Output> open_output(const std::filesystem::path& target, const std::filesystem::path& program_folder,
                                    std::string_view path_variable) {
  require(!target.empty(), "out: no name given");
  check_writable(target);
  const std::string kind = target.has_filename() ? target.extension().string() : "";
  const bool folder_there = std::filesystem::is_directory(target);
  if (kind.empty()) return std::make_unique<PngOutput>(target);
  require(!folder_there, "out: ", target.string(), " is a folder; for PNG files give it a name without a dot");
  if (kind == ".safetensors") return std::make_unique<TensorOutput>(target);
  if (kind == ".mp4") {
    auto helper = find_mp4_helper(program_folder, path_variable);
    check_mp4_helper(helper);
    return std::make_unique<Mp4Output>(target, std::move(helper));
  }
  fail(Code::unsupported, "out: ", target.string(), ": files of kind ", kind,
       " are not written; use .mp4, .safetensors, or a folder for PNG files");
}

}  // namespace zoetrope
