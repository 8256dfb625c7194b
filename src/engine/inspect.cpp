#include "engine/inspect.h"

#include <algorithm>

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

constexpr const char* needed[] = {"scheduler", "tokenizer", "text_encoder", "transformer", "vae"};

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

void describe(const ModelPart& part, OrderedJson& facts) {
  facts["class"] = class_name_of(part.config);
  const ModelClass& kind = model_class(facts["class"]);
  const ModelFacts expected = kind.facts(part.config);
  facts["what"] = kind.what;
  facts["tensors"] = expected.used.size();
  facts["parameters"] = expected.parameters();
  if (part.checkpoint) facts.update(stored_facts(*part.checkpoint));
}

// What is known of a component, and the first thing that is wrong with it.
OrderedJson inspect_component(const ModelSource& source, const std::string& name) {
  OrderedJson facts;
  facts["name"] = name;
  facts["problem"] = nullptr;
  try {
    const auto part = source.parts.find(name);
    if (part != source.parts.end()) about(part->second.where, [&] { describe(part->second, facts); });
    if (const auto fault = source.faults.find(name); fault != source.faults.end()) fail(Code::invalid, fault->second);
    if (part != source.parts.end()) check_part(name, part->second);
    if (name == "tokenizer") open_tokenizer(source);
  } catch (const Error& error) {
    facts["problem"] = error.what();
  }
  return facts;
}

// Of two parts that are fine each by itself: whether they belong together.
void judge_tokenizer(const ModelSource& source, OrderedJson& facts) {
  OrderedJson* tokenizer = nullptr;
  for (auto& part : facts["parts"]) {
    const bool asked = part["name"] == "tokenizer" || part["name"] == "text_encoder";
    if (asked && !part["problem"].is_null()) return;
    if (part["name"] == "tokenizer") tokenizer = &part;
  }
  if (!tokenizer || !source.has("text_encoder")) return;
  try {
    check_tokenizer(source, open_tokenizer(source)->ids());
  } catch (const Error& error) {
    (*tokenizer)["problem"] = error.what();
  }
}

// Those that have weights, and whatever else is not as it should be.
std::vector<std::string> components(const ModelSource& source) {
  std::vector<std::string> names;
  if (!source.random()) names.push_back("tokenizer");
  for (const auto& [name, part] : source.parts) names.push_back(name);
  for (const auto& [name, fault] : source.faults)
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

void add_problem(OrderedJson& facts, const std::string& what) {
  for (const auto& known : facts["problems"])
    if (known == what) return;
  facts["problems"].push_back(what);
}

// A model can be judged as a whole once all its configs are there.
bool has_configs(const ModelSource& source, OrderedJson& facts) {
  bool all = true;
  for (const std::string name : needed) {
    const bool fault = source.faults.contains(name);
    const bool there = name == "tokenizer"   ? true
                       : name == "scheduler" ? !source.scheduler.is_null()
                                             : source.has(name);
    all = all && there;
    if (!there && !fault) add_problem(facts, cat(source.name, ": model_index.json names no ", name));
  }
  return all;
}

void add_recipes(const ModelSource& source, OrderedJson& facts) try {
  const ModelInfo info = model_info(source);
  const auto recipes = read_recipes();
  const Recipe& recipe = find_recipe(recipes, info);
  facts["what"] = recipe.title;
  for (const char* kind : {"original", "folder"}) {
    if (kind == std::string("original") && recipe.original.is_null()) continue;
    Ask ask;
    ask.recipe = kind;
    Json fields = to_json(resolve(ask, info, 0));
    for (const char* own : {"prompt", "seed", "noise"}) fields.erase(own);
    facts["recipes"][kind] = fields;
  }
} catch (const Error& error) {
  add_problem(facts, error.what());
}

}  // namespace

OrderedJson inspect_model(const ModelSource& source) {
  OrderedJson facts;
  facts["kind"] = "model";
  facts["name"] = source.name;
  facts["class"] = value_or(source.index, "_class_name", std::string());
  facts["problems"] = OrderedJson::array();
  if (has_configs(source, facts)) add_recipes(source, facts);
  for (const std::string& name : components(source)) facts["parts"].push_back(inspect_component(source, name));
  judge_tokenizer(source, facts);
  for (const auto& part : facts["parts"])
    if (!part["problem"].is_null()) add_problem(facts, part["problem"]);
  return facts;
}

OrderedJson inspect_cost(const ModelSource& source, const Request& request, DType dtype, DType vae_dtype) {
  const Cost cost = dry_run({source, cpu_traits(), dtype, vae_dtype}, request);
  const WanConfig transformer = wan_config(source.at("transformer").config);
  const int64_t scale = wan_vae_config(source.at("vae").config).spatial_factor();
  OrderedJson facts;
  facts["size"] = cat(request.width, 'x', request.height);
  facts["num_frames"] = request.num_frames;
  facts["steps"] = request.steps;
  facts["dtype"] = name(dtype);
  facts["vae_dtype"] = name(vae_dtype);
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

}  // namespace zoetrope
