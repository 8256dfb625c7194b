#include "base/error.h"
#include "engine/inspect.h"
#include "io/safetensors.h"

namespace zoetrope {
namespace {

// By the rules of thumb that the released shapes allow; an original file has other names than a diffusers one.
std::string looks_like(const SafetensorsFile& file) {
  const auto shape = [&](const char* name) { return file.find(name) ? file.find(name)->shape : Shape(); };
  for (const char* prefix : {"", "model.diffusion_model."}) {
    const Shape patch = shape(cat(prefix, "patch_embedding.weight").c_str());
    if (patch.rank() != 5) continue;
    const bool original = file.find(cat(prefix, "head.modulation")) != nullptr;
    const std::string style = original ? " (original names: use the -Diffusers repository)" : "";
    const bool image =
        file.find(cat(prefix, "img_emb.proj.0.weight")) || file.find("condition_embedder.image_embedder.norm1.weight");
    if (patch[0] == 1536) return "Wan 2.1 T2V-1.3B transformer" + style;
    if (patch[0] == 3072) return "Wan 2.2 TI2V-5B transformer" + style;
    if (patch[0] == 5120 && patch[1] == 16)
      return "Wan 2.1 T2V-14B transformer, or one expert of Wan 2.2 T2V-A14B" + style;
    if (patch[0] == 5120 && patch[1] == 36)
      return (image ? "Wan 2.1 I2V or FLF2V-14B transformer" : "one expert of Wan 2.2 I2V-A14B") + style;
    return cat("Wan transformer of width ", patch[0], ", ", patch[1], " input channels", style);
  }
  const Shape vae =
      shape("decoder.conv_in.weight").rank() ? shape("decoder.conv_in.weight") : shape("decoder.conv1.weight");
  if (vae.rank() == 5) return vae[1] == 48 ? "Wan 2.2 VAE" : cat("Wan 2.1 VAE, ", vae[1], " latent channels");
  if (file.find("encoder.block.0.layer.0.SelfAttention.q.weight")) return "UMT5 text encoder";
  return "nothing known by its tensors";
}

}  // namespace

OrderedJson inspect_file(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  OrderedJson facts, types = OrderedJson::object();
  int64_t parameters = 0;
  for (const TensorEntry& entry : file.entries()) {
    const std::string type = safetensors_name(entry.dtype);
    types[type] = types.value(type, 0) + 1;
    parameters += entry.shape.size();
  }
  facts["kind"] = "file";
  facts["path"] = path.string();
  facts["looks_like"] = looks_like(file);
  facts["bytes"] = std::filesystem::file_size(path);
  facts["tensors"] = file.entries().size();
  facts["parameters"] = parameters;
  facts["stored"] = types;
  facts["metadata"] = file.metadata();
  return facts;
}

}  // namespace zoetrope
