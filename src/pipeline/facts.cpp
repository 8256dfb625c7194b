#include "pipeline/facts.h"

#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "base/units.h"
#include "core/dry_rank.h"
#include "models/models.h"
#include "models/umt5/umt5.h"
#include "models/wan/transformer.h"
#include "models/wan_vae/decoder.h"

namespace zoetrope {
namespace {

Role role_of(const std::string& part) {
  if (part == "text_encoder") return Role::text_encoder;
  return part == "vae" ? Role::vae : Role::transformer;
}

void check_class(const std::string& part, const Json& config) {
  const std::string class_name = class_name_of(config);
  const Role found = model_class(class_name).role, wanted = role_of(part);
  require(found == wanted, class_name, " is a ", name(found), ", a ", name(wanted), " belongs here");
}

// Where a part's tensors are: its file, or the folder of its shards.
std::string place_of(const ModelPart& part) {
  if (!part.checkpoint) return part.where;
  const auto files = part.checkpoint->files();
  return files.size() == 1 ? files[0].string() : part.checkpoint->path().string();
}

void check_pipeline(const ModelSource& source) {
  const auto kind = value_or(source.index, "_class_name", std::string());
  if (kind == "WanImageToVideoPipeline")
    fail(Code::unsupported, source.name, ": an image-to-video model (", kind,
         "); this version makes video from text: use a T2V model, such as Wan-AI/Wan2.2-T2V-A14B-Diffusers");
  if (kind != "WanPipeline")
    fail(Code::unsupported, source.name, ": pipeline class \"", kind, "\" is not built; WanPipeline is");
  for (const auto& [part, what] : source.parts) about(what.where, [&] { check_class(part, what.config); });
}

// The names of a part's files, links followed, and what their metadata says; only names tell one expert from the other.
std::vector<std::string> names_of(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  const auto files = checkpoint.files();
  for (size_t i = 0; i < files.size(); ++i) {
    names.push_back(std::filesystem::canonical(files[i]).filename().string());
    for (const auto& [key, value] : checkpoint.metadata(i)) names.push_back(value);
  }
  return names;
}

// "wan2.2_t2v_low_noise_14B", "Low-Noise": both hold `noise` = "lownoise".
bool speaks_of(const std::string& name, std::string_view noise) {
  std::string letters;
  for (const char ch : name)
    if (std::isalpha(static_cast<unsigned char>(ch))) letters += static_cast<char>(std::tolower(ch));
  return letters.find(noise) != std::string::npos;
}

void check_expert(const ModelSource& source, const std::string& part, std::string_view own, std::string_view other) {
  const ModelPart& what = source.at(part);
  if (!what.checkpoint) return;
  for (const std::string& name : names_of(*what.checkpoint))
    require(speaks_of(name, own) || !speaks_of(name, other), place_of(what), ": calls itself \"", name.substr(0, 80),
            "\"; transformer/ holds the high-noise expert and transformer_2/ the other: exchange them");
}

void check_fit(const ModelSource& source, const WanConfig& transformer) {
  const ModelPart& vae = source.at("vae");
  const auto vae_config = about(vae.where, [&] { return wan_vae_config(vae.config); });
  require(vae_config.z_dim == transformer.in_channels, vae.where, ": this VAE makes latents of ", vae_config.z_dim,
          " channels, the transformer takes ", transformer.in_channels, "; take both from one repository");
  const ModelPart& text = source.at("text_encoder");
  const auto text_config = about(text.where, [&] { return umt5_config(text.config); });
  require(text_config.dim == transformer.text_dim, text.where, ": text vectors of ", text_config.dim,
          ", the transformer takes ", transformer.text_dim, "; take both from one repository");
  if (!source.has("transformer_2")) return;
  const ModelPart& second = source.at("transformer_2");
  const auto other = about(second.where, [&] { return wan_config(second.config); });
  require(other.dim() == transformer.dim() && other.in_channels == transformer.in_channels &&
              other.out_channels == transformer.out_channels && other.text_dim == transformer.text_dim,
          second.where, ": the two experts differ in width or channels; take both from one repository");
  check_expert(source, "transformer", "highnoise", "lownoise");
  check_expert(source, "transformer_2", "lownoise", "highnoise");
}

// Builds the part in a context that counts: the constructor's own checks are the judgement. Returns what it would read.
// What is wrong in its config.json is said of that file, what is wrong in its tensors of theirs.
std::vector<nn::Entry> build_dry(const std::string& part, const ModelPart& what) {
  const auto built = [&]<class T>(T*, auto read) {
    const auto config = about(what.where, [&] { return read(what.config); });
    return about(place_of(what), [&] {
      DryRank c;
      return T(c, config, *what.weights, DType::f32, part).entries();
    });
  };
  switch (role_of(part)) {
    case Role::text_encoder:
      return built(static_cast<Umt5Encoder*>(nullptr), umt5_config);
    case Role::transformer:
      return built(static_cast<WanTransformer*>(nullptr), wan_config);
    case Role::vae:
      return built(static_cast<WanVaeDecoder*>(nullptr), wan_vae_config);
  }
  return {};
}

}  // namespace

void check_part(const std::string& part, const ModelPart& what) {
  about(what.where, [&] { check_class(part, what.config); });
  const auto entries = build_dry(part, what);
  if (!what.checkpoint) return;
  for (const nn::Entry& entry : entries) what.checkpoint->check_type(entry.key, DType::f32);
}

void check_parts(const ModelSource& source) {
  std::string complaints;
  for (const auto& [part, what] : source.parts) try {
      check_part(part, what);
    } catch (const Error& error) {
      complaints += cat(complaints.empty() ? "" : "; ", error.what());
    }
  require(complaints.empty(), complaints);
}

void check_tokenizer(const ModelSource& source, int64_t ids) {
  const ModelPart& text = source.at("text_encoder");
  DryRank c;
  const int64_t rows = Umt5Encoder(c, umt5_config(text.config), *text.weights, DType::f32).vocabulary();
  require(ids <= rows, source.name, "/tokenizer: gives token ids up to ", ids - 1, ", the embedding table of ",
          place_of(text), " has ", plural(rows, "row"), "; take both from one repository");
}

ModelInfo model_info(const ModelSource& source) {
  check_pipeline(source);
  const ModelPart& part = source.at("transformer");
  const auto transformer = about(part.where, [&] { return wan_config(part.config); });
  check_fit(source, transformer);
  ModelInfo info;
  info.pipeline_class = value_or(source.index, "_class_name", std::string());
  info.source = source.name;
  info.experts = source.has("transformer_2") ? 2 : 1;
  info.dim = static_cast<int>(transformer.dim());
  info.layers = static_cast<int>(transformer.layers);
  info.in_channels = static_cast<int>(transformer.in_channels);
  info.spatial_scale = static_cast<int>(wan_vae_config(source.at("vae").config).spatial_factor());
  const auto boundary = source.index.find("boundary_ratio");
  if (info.experts == 2 && boundary != source.index.end() && boundary->is_number()) info.boundary_ratio = *boundary;
  info.folder_flow_shift = read_scheduler_config(source.scheduler, cat(source.name, "/scheduler")).flow_shift;
  return info;
}

SchedulerConfig scheduler_config(const ModelSource& source, const Request& request) {
  SchedulerConfig config = read_scheduler_config(source.scheduler, cat(source.name, "/scheduler"));
  config.flow_shift = request.flow_shift;
  return config;
}

}  // namespace zoetrope
