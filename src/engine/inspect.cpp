#include "engine/inspect.h"

#include <sstream>

#include "base/error.h"
#include "config/recipes.h"
#include "engine/memory.h"
#include "io/checkpoint.h"
#include "models/models.h"
#include "models/wan/config.h"
#include "models/wan_vae/config.h"
#include "ops/cpu/backend.h"
#include "pipeline/facts.h"
#include "pipeline/text_to_video.h"

namespace zoetrope {
namespace {

OrderedJson stored_facts(const Checkpoint& checkpoint) {
  OrderedJson facts, types = OrderedJson::object(), files = OrderedJson::array();
  int64_t bytes = 0;
  for (const auto& [name, entry] : checkpoint.entries()) {
    const std::string type = safetensors_name(entry.dtype);
    types[type] = types.value(type, 0) + 1;
    bytes += entry.shape.size() * bytes_of(entry.dtype);
  }
  for (const auto& file : checkpoint.files()) files.push_back(file.filename().string());
  facts["stored"] = types, facts["files"] = files, facts["bytes"] = bytes;
  return facts;
}

OrderedJson inspect_part(const std::string& name, const ModelPart& part) {
  OrderedJson facts;
  facts["name"] = name;
  facts["problem"] = nullptr;
  try {
    facts["class"] = class_name_of(part.config);
    const ModelClass& kind = model_class(facts["class"]);
    const ModelFacts expected = kind.facts(part.config);
    facts["what"] = kind.what;
    facts["tensors"] = expected.used.size();
    facts["parameters"] = expected.parameters();
    if (part.checkpoint) facts.update(stored_facts(*part.checkpoint));
    check_part(name, part);
  } catch (const Error& error) {
    facts["problem"] = error.what();
  }
  return facts;
}

void add_recipe(const ModelSource& source, OrderedJson& facts) {
  try {
    const ModelInfo info = model_info(source);
    const auto recipes = read_recipes();
    const Recipe& own = find_recipe(recipes, info);
    facts["what"] = own.title;
    for (const char* kind : {"original", "folder"}) {
      if (kind == std::string("original") && own.original.is_null()) continue;
      Ask ask;
      ask.recipe = kind;
      Json recipe = to_json(resolve(ask, info, 0));
      for (const char* own : {"prompt", "seed", "noise"}) recipe.erase(own);
      facts["recipes"][kind] = recipe;
    }
  } catch (const Error& error) {
    facts["problems"].push_back(error.what());
  }
}

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

std::string grouped(int64_t n) {
  std::string text = std::to_string(n);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<size_t>(at), ",");
  return text;
}

void print_part(std::ostream& out, const OrderedJson& part) {
  out << "\n  " << part["name"].get<std::string>() << ": " << part.value("class", "?");
  if (part.contains("what")) out << ", " << part["what"].get<std::string>();
  out << '\n';
  if (part.contains("parameters"))
    out << "    " << grouped(part["parameters"]) << " parameters in " << part["tensors"] << " tensors\n";
  if (part.contains("stored")) {
    out << "    stored as";
    for (const auto& [type, count] : part["stored"].items()) out << ' ' << type << " (" << count << ')';
    out << ", " << gibibytes(part["bytes"]) << " in " << part["files"].size() << " file(s)\n";
  }
  out << "    " << (part["problem"].is_null() ? "complete" : part["problem"].get<std::string>()) << '\n';
}

void print_cost(std::ostream& out, const OrderedJson& cost) {
  out << "\ncost of " << cost["size"].get<std::string>() << ", " << cost["num_frames"] << " frames, " << cost["steps"]
      << " steps, " << cost["dtype"].get<std::string>() << "\n";
  out << "  tokens            " << grouped(cost["tokens"]) << "\n";
  out << "  FLOPs a forward   " << cost["forward_flops"] << "\n  FLOPs in all      " << cost["total_flops"] << "\n";
  for (const auto& [region, bytes] : cost["memory"].items())
    if (bytes.is_number())
      out << "  " << region << std::string(18 - std::min<size_t>(17, region.size()), ' ') << grouped(bytes)
          << " bytes\n";
  for (const auto& [part, bytes] : cost["memory"]["weights"].items())
    out << "    weights of " << part << ": " << grouped(bytes) << " bytes\n";
}

}  // namespace

OrderedJson inspect_model(const ModelSource& source) {
  OrderedJson facts;
  facts["kind"] = "model";
  facts["name"] = source.name;
  facts["class"] = value_or(source.index, "_class_name", std::string());
  facts["problems"] = OrderedJson::array();
  add_recipe(source, facts);
  try {
    open_tokenizer(source);
  } catch (const Error& error) {
    facts["problems"].push_back(error.what());
  }
  for (const auto& [name, part] : source.parts) {
    facts["parts"].push_back(inspect_part(name, part));
    if (const auto& problem = facts["parts"].back()["problem"]; !problem.is_null())
      facts["problems"].push_back(problem);
  }
  return facts;
}

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

OrderedJson inspect_cost(const ModelSource& source, const Request& request, DType dtype, DType vae_dtype) {
  const Cost cost = dry_run(source, request, scheduler_config(source, request), cpu_traits(), dtype, vae_dtype);
  const WanConfig transformer = wan_config(source.at("transformer").config);
  const int64_t scale = wan_vae_config(source.at("vae").config).spatial_factor();
  OrderedJson facts;
  facts["size"] = cat(request.width, 'x', request.height);
  facts["num_frames"] = request.num_frames;
  facts["steps"] = request.steps;
  facts["dtype"] = name(dtype);
  facts["tokens"] = transformer.tokens(request.latent_frames(), request.height / scale, request.width / scale);
  facts["forward_flops"] = cost.forward_flops;
  facts["total_flops"] = cost.total_flops;
  facts["memory"]["weights"] = cost.memory.weights;
  facts["memory"]["request"] = cost.memory.request;
  facts["memory"]["scratch"] = cost.memory.scratch;
  facts["memory"]["exchange"] = cost.memory.exchange;
  facts["memory"]["total"] = cost.memory.total();
  return facts;
}

std::string inspect_as_text(const OrderedJson& facts) {
  std::ostringstream out;
  if (facts["kind"] == "file") {
    out << facts["path"].get<std::string>() << ": " << facts["looks_like"].get<std::string>() << "\n  "
        << grouped(facts["parameters"]) << " elements in " << facts["tensors"] << " tensors, types "
        << facts["stored"].dump() << "\n";
    return out.str();
  }
  out << facts["name"].get<std::string>() << ": " << facts.value("what", "not a model that this version runs") << " ("
      << facts["class"].get<std::string>() << ")\n";
  if (facts.contains("recipes"))
    for (const auto& [kind, r] : facts["recipes"].items()) {
      out << "  recipe " << kind << ": " << r["width"] << 'x' << r["height"] << ", " << r["num_frames"] << " frames, "
          << r["fps"] << " fps, " << r["steps"] << " steps, shift " << r["flow_shift"] << ", guidance "
          << r["guidance_scale"];
      if (r.contains("boundary_ratio")) out << " / " << r["guidance_scale_2"] << ", boundary " << r["boundary_ratio"];
      out << ", schedule " << r["schedule"].get<std::string>() << '\n';
    }
  for (const auto& part : facts["parts"]) print_part(out, part);
  for (const auto& problem : facts["problems"]) out << "\nproblem: " << problem.get<std::string>() << '\n';
  if (facts.contains("cost")) print_cost(out, facts["cost"]);
  return out.str();
}

}  // namespace zoetrope
