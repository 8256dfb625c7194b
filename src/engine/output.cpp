#include "engine/output.h"

#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/sha256.h"
#include "io/image.h"
#include "io/mp4.h"
#include "io/safetensors.h"

namespace zoetrope {
namespace {

constexpr size_t longest_text = 8192;  // bytes of a prompt in metadata; the model reads about 2000 of them

// The recipe as metadata. It travels on a command line to the MP4 helper, so its size is bounded.
std::string short_recipe(Json recipe) {
  for (const char* field : {"prompt", "negative_prompt"}) {
    if (!recipe.contains(field)) continue;
    auto& text = recipe[field].get_ref<std::string&>();
    if (text.size() <= longest_text) continue;
    size_t end = longest_text;
    while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // not inside a character
    text = text.substr(0, end) + "...";
  }
  return recipe.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What all kinds share: the hash of the frames and the facts of the report.
class Hashed : public Output {
 public:
  explicit Hashed(std::filesystem::path target) : target_(std::move(target)) {}

  void describe(const Json& recipe) override { recipe_ = short_recipe(recipe); }
  void begin(int width, int height, int frames, int fps) override {
    width_ = width, height_ = height, frames_ = frames, fps_ = fps;
    open();
  }
  void frame(std::span<const uint8_t> rgb) override {
    hash_.update(std::as_bytes(rgb));
    put(rgb);
  }
  void finish(const std::stop_token& stop) override {
    close(stop);
    facts_ = {{"path", target_.string()}, {"width", width_}, {"height", height_},
              {"num_frames", frames_},    {"fps", fps_},     {"sha256_frames", hash_.hex()}};
  }
  Json facts() const override { return facts_; }

 protected:
  virtual void open() = 0;
  virtual void put(std::span<const uint8_t> rgb) = 0;
  virtual void close(const std::stop_token& stop) = 0;

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
  void close(const std::stop_token& stop) override { writer_->finish(stop); }

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
  void close(const std::stop_token&) override { writer_->finish(); }

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
  void close(const std::stop_token&) override { writer_->commit(); }

  std::optional<SafetensorsWriter> writer_;
};

void require_parent(const std::filesystem::path& target) {
  std::error_code error;
  const auto folder = std::filesystem::absolute(target).parent_path();
  require(std::filesystem::is_directory(folder, error), "out: ", folder.string(), " is not a folder; make it first");
}

// Tries it, since permissions alone do not tell (read-only file systems, /proc, quotas, long names).
void check_writable(const std::filesystem::path& file) {
  std::error_code error;
  require_parent(file);
  require(!std::filesystem::is_directory(file, error), "out: ", file.string(),
          " is a folder; for PNG files end its name with a slash");
  try {
    const AtomicFile probe(file);
  } catch (const Error& cannot) {
    fail(cannot.code(), "out: ", cannot.what());
  }
}

// ".mp4": hardly the folder that it would be by the rule of names without an ending.
bool named_by_its_ending(const std::filesystem::path& target) {
  const std::string name = target.filename().string();
  return name.size() > 1 && name.starts_with('.') && name != "..";
}

void check_folder(const std::filesystem::path& target) {
  const auto folder = target.has_filename() ? target : target.parent_path();
  const std::string name = folder.filename().string();
  require(!name.empty() && name != "." && name != "..", "out: ", target.string(),
          " is no name for a new folder; give the frames one of their own");
  require_parent(folder);
  try {
    const FrameFolder probe(folder);
  } catch (const Error& cannot) {
    fail(cannot.code(), "out: ", cannot.what());
  }
}

}  // namespace

std::unique_ptr<Output> open_output(const std::filesystem::path& target, const std::filesystem::path& program_folder,
                                    std::string_view path_variable) {
  require(!target.empty(), "out: no name given; use FILE.mp4, FILE.safetensors or a folder for PNG files");
  require(target != "-",
          "out: a video is not written to standard output; use FILE.mp4, FILE.safetensors or a folder for ",
          "PNG files (./- for one of that name)");
  const std::string kind = target.has_filename() ? target.extension().string() : "";
  if (kind.empty()) {
    require(!named_by_its_ending(target), "out: ", target.string(), " is an ending without a name; use FILE",
            target.filename().string(), ", or end it with a slash for a folder of PNG files");
    check_folder(target);
    return std::make_unique<PngOutput>(target);
  }
  if (kind != ".mp4" && kind != ".safetensors")
    fail(Code::unsupported, "out: ", target.string(), ": files of kind ", kind,
         " are not written; use .mp4, .safetensors, or a folder for PNG files (end its name with a slash)");
  check_writable(target);
  if (kind == ".safetensors") return std::make_unique<TensorOutput>(target);
  auto helper = find_mp4_helper(program_folder, path_variable);
  check_mp4_helper(helper);
  return std::make_unique<Mp4Output>(target, std::move(helper));
}

void remove_partial(const std::filesystem::path& target, pid_t writer) {
  auto part = part_of(target.has_filename() ? target : target.parent_path());
  part.replace_extension(cat(".part-", writer));  // in place of our own number
  std::error_code error;
  for (int tries = 0; tries < 3; ++tries) {  // its writer may still be at work
    std::filesystem::remove_all(part, error);
    if (!error) return;
  }
}

}  // namespace zoetrope
