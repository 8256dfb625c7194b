// make-toy: a complete model folder in the diffusers layout with seeded random weights, small enough for a laptop. Its
// videos are noise; everything else about it is real, so that diffusers loads and runs the folder, too.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "config/resources.h"
#include "io/safetensors.h"
#include "models/models.h"
#include "nn/random.h"

namespace zoetrope::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string kind, out;
  uint64_t seed = 0;
};

constexpr const char* kinds = "wan|wan-a14b";

void require_kind(const std::string& kind) {
  if (kind == "ti2v" || kind == "cosmos3")
    fail(Code::unsupported, "make-toy: kind ", kind, " is not built in this version; use ", kinds);
  require(kind == "wan" || kind == "wan-a14b", "make-toy: kind \"", kind, "\" is not known; use ", kinds);
}

// A folder that appears under its name when it is complete, or not at all.
class NewFolder {
 public:
  explicit NewFolder(fs::path target) : target_(std::move(target)), part_(target_) {
    if (!target_.has_filename()) target_ = target_.parent_path();
    require(!fs::exists(target_), "make-toy: ", target_.string(), " exists already; remove it or choose another name");
    part_ = target_;
    part_ += cat(".part-", ::getpid());
    std::error_code error;
    fs::create_directories(part_, error);
    require(!error, "make-toy: ", target_.string(), " cannot be made: ", error.message());
  }
  ~NewFolder() {
    std::error_code ignored;
    fs::remove_all(part_, ignored);
  }
  const fs::path& part() const { return part_; }
  void commit() { fs::rename(part_, target_); }

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

void write_weights(const fs::path& component, uint64_t seed) {
  const Json config = read_json(component / "config.json");
  const ModelClass& kind = model_class(class_name_of(config));
  ModelFacts facts = kind.facts(config);
  facts.used.insert(facts.used.end(), facts.optional.begin(), facts.optional.end());
  std::vector<TensorSpec> specs;
  std::map<std::string, Shape> shapes;
  for (const nn::Entry& entry : facts.used) {
    specs.push_back({entry.key, DType::f32, entry.shape});
    shapes.emplace(entry.key, entry.shape);
  }
  const bool text = kind.role == Role::text_encoder;
  SafetensorsWriter out(component / (text ? "model.safetensors" : "diffusion_pytorch_model.safetensors"), specs,
                        {{"format", "pt"}});
  nn::Random random(seed);
  for (const TensorEntry& entry : out.entries()) {
    std::vector<float> values(static_cast<size_t>(entry.shape.size()));
    random.read(entry.name, entry.shape, {}, Tensor(values.data(), entry.shape, DType::f32));
    out.write(entry.name, std::as_bytes(std::span(values)));
  }
  out.commit();
}

int make_toy(const Options& o) {
  require_kind(o.kind);
  NewFolder folder(o.out);
  write_resources(cat("toy/", o.kind, '/'), folder.part());
  write_resources("toy/tokenizer/", folder.part() / "tokenizer");
  for (const auto& component : fs::directory_iterator(folder.part())) {
    if (!fs::exists(component.path() / "config.json")) continue;
    write_weights(component.path(), o.seed + (component.path().filename() == "transformer_2" ? 1 : 0));
  }
  folder.commit();
  std::printf("%s\n", o.out.c_str());
  return 0;
}

}  // namespace

void add_make_toy(CLI::App& app, const World&, Action& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("make-toy", "write a small model folder with random weights");
  command->add_option("--kind", o->kind, "which model it imitates")->required()->type_name(kinds);
  command->add_option("--out", o->out, "folder to make")->required()->type_name("DIR");
  command->add_option("--seed", o->seed, "of the weights")->type_name("N")->capture_default_str();
  command->callback([o, &chosen] { chosen = [o] { return make_toy(*o); }; });
}

}  // namespace zoetrope::cli
