#include "models/models.h"

#include "base/error.h"
#include "core/dry_rank.h"
#include "models/umt5/umt5.h"
#include "models/wan/transformer.h"
#include "models/wan_vae/decoder.h"
#include "nn/random.h"

namespace zoetrope {
namespace {

// A context that counts and a source that has everything: a model built on them says what it expects.
struct Dry : DryRank {
  nn::Random parameters{0};
};

ModelFacts umt5_facts(const Json& json) {
  Dry dry;
  return {Umt5Encoder(dry.c, umt5_config(json), dry.parameters, DType::f32).entries(), {}};
}

ModelFacts wan_facts(const Json& json) {
  Dry dry;
  return {WanTransformer(dry.c, wan_config(json), dry.parameters, DType::f32).entries(), {}};
}

ModelFacts wan_vae_facts(const Json& json) {
  Dry dry;
  const WanVaeConfig config = wan_vae_config(json);
  return {WanVaeDecoder(dry.c, config, dry.parameters, DType::f32).entries(), wan_vae_encoder_entries(config)};
}

constexpr ModelClass classes[] = {
    {"UMT5EncoderModel", Role::text_encoder, "UMT5 text encoder", umt5_facts},
    {"WanTransformer3DModel", Role::transformer, "Wan 2.1 / 2.2 text-to-video transformer", wan_facts},
    {"AutoencoderKLWan", Role::vae, "Wan 2.1 VAE (decoder)", wan_vae_facts},
};

}  // namespace

const char* name(Role role) {
  constexpr const char* names[] = {"text encoder", "transformer", "vae"};
  return names[static_cast<int>(role)];
}

std::span<const ModelClass> model_classes() { return classes; }

std::string class_name_of(const Json& config) {
  require(config.is_object(), "config.json is not an object");
  if (config.contains("_class_name")) return value_or<std::string>(config, "_class_name", "");
  const auto names = config.find("architectures");
  require(names != config.end() && names->is_array() && !names->empty() && names->front().is_string(),
          "config.json names no class: neither _class_name nor architectures is there");
  return names->front().get<std::string>();
}

const ModelClass& model_class(const std::string& class_name) {
  std::string known;
  for (const ModelClass& one : classes) {
    if (class_name == one.class_name) return one;
    known += cat(known.empty() ? "" : ", ", one.class_name);
  }
  fail(Code::unsupported, "model class \"", class_name, "\" is not built; these are: ", known);
}

}  // namespace zoetrope
