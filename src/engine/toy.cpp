#include "engine/toy.h"

#include "base/error.h"
#include "base/file.h"
#include "config/resources.h"
#include "core/stop.h"
#include "io/safetensors.h"
#include "models/models.h"
#include "nn/random.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

void require_kind(const std::string& kind) {
  if (kind == "ti2v" || kind == "cosmos3")
    fail(Code::unsupported, "make-toy: kind ", kind, " is not built in this version; use ", toy_kinds);
  require(kind == "wan" || kind == "wan-a14b", "make-toy: kind \"", kind, "\" is not known; use ", toy_kinds);
}

// A folder that appears under its name when it is complete, or not at all.
class NewFolder {
 public:
  explicit NewFolder(fs::path target) : target_(std::move(target)) {
    if (!target_.has_filename()) target_ = target_.parent_path();
    std::error_code error;
    require(!target_.empty(), "make-toy: no folder named");
    require(!fs::exists(target_, error), "make-toy: ", target_.string(),
            " exists already; remove it or choose another name");
    part_ = part_of(target_);
    fs::create_directories(part_, error);
    require(!error, "make-toy: ", target_.string(), " cannot be made: ", error.message());
  }
  ~NewFolder() {
    std::error_code ignored;
    fs::remove_all(part_, ignored);
  }
  const fs::path& part() const { return part_; }
  void commit() {
    std::error_code error;
    fs::rename(part_, target_, error);
    require(!error, "make-toy: ", target_.string(), " cannot be made: ", error.message());
  }

 private:
  fs::path target_, part_;
};

// Resources under `prefix`, written below `folder`.
void write_resources(const std::string& prefix, const fs::path& folder) {
  for (const Resource& entry : resources()) {
    if (!entry.name.starts_with(prefix)) continue;
    const fs::path file = folder / entry.name.substr(prefix.size());
    fs::create_directories(file.parent_path());
    write_file(file, entry.bytes);
  }
}

void write_weights(const fs::path& component, uint64_t seed, const std::stop_token& stop) {
  const Json config = read_json(component / "config.json");
  const ModelClass& kind = model_class(class_name_of(config));
  ModelFacts facts = kind.facts(config);
  facts.used.insert(facts.used.end(), facts.optional.begin(), facts.optional.end());
  std::vector<TensorSpec> specs;
  for (const nn::Entry& entry : facts.used) specs.push_back({entry.key, DType::f32, entry.shape});
  const bool text = kind.role == Role::text_encoder;
  SafetensorsWriter out(component / (text ? "model.safetensors" : "diffusion_pytorch_model.safetensors"), specs,
                        {{"format", "pt"}});
  nn::Random random(seed);
  for (const TensorEntry& entry : out.entries()) {
    check_stop(stop);
    std::vector<float> values(static_cast<size_t>(entry.shape.size()));
    random.read(entry.name, entry.shape, {}, Tensor(values.data(), entry.shape, DType::f32));
    out.write(entry.name, std::as_bytes(std::span(values)));
  }
  out.commit();
}

}  // namespace

void write_toy(const std::string& kind, const fs::path& folder, uint64_t seed, const std::stop_token& stop) {
  require_kind(kind);
  NewFolder made(folder);
  write_resources(cat("toy/", kind, '/'), made.part());
  write_resources("toy/tokenizer/", made.part() / "tokenizer");
  for (const auto& component : fs::directory_iterator(made.part())) {
    if (!fs::exists(component.path() / "config.json")) continue;
    write_weights(component.path(), seed + (component.path().filename() == "transformer_2" ? 1 : 0), stop);
  }
  made.commit();
}

}  // namespace zoetrope
