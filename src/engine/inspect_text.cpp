#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/units.h"
#include "engine/inspect.h"

namespace zoetrope {
namespace {

std::string text_of(const OrderedJson& facts, const char* key) { return facts.at(key).get<std::string>(); }

void print_recipe(std::ostream& out, const std::string& kind, const OrderedJson& r) {
  out << "  recipe " << kind << ": " << r["width"] << 'x' << r["height"] << ", " << plural(r["num_frames"], "frame")
      << ", " << r["fps"] << " fps, " << plural(r["steps"], "step") << ", shift " << r["flow_shift"] << ", guidance "
      << r["guidance_scale"];
  if (r.contains("boundary_ratio")) out << " / " << r["guidance_scale_2"] << ", boundary " << r["boundary_ratio"];
  out << ", schedule " << text_of(r, "schedule") << '\n';
}

void print_part(std::ostream& out, const OrderedJson& part) {
  out << "\n  " << text_of(part, "name");
  if (part.contains("class")) out << ": " << text_of(part, "class");
  if (part.contains("what")) out << ", " << text_of(part, "what");
  out << '\n';
  if (part.contains("parameters"))
    out << "    " << grouped(part["parameters"]) << " parameters in " << plural(part["tensors"], "tensor") << '\n';
  if (part.contains("stored")) {
    out << "    stored as";
    for (const auto& [type, count] : part["stored"].items()) out << ' ' << type << " (" << count << ')';
    out << ", " << human_bytes(part["bytes"]) << " in " << plural(static_cast<int64_t>(part["files"].size()), "file")
        << '\n';
  }
  const bool fine = part["problem"].is_null(), random = part.contains("parameters") && !part.contains("stored");
  out << "    " << (!fine ? "not usable, see below" : random ? "random weights, no file" : "complete") << '\n';
}

std::string left(const std::string& text, size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text + ' ';
}

void print_bytes(std::ostream& out, const std::string& what, int64_t bytes) {
  out << "  " << left(what, 20) << grouped(bytes) << " bytes";
  if (bytes >= 1024) out << " (" << human_bytes(bytes) << ')';
  out << '\n';
}

void print_cost(std::ostream& out, const OrderedJson& cost) {
  out << "\ncost of " << text_of(cost, "size") << ", " << plural(cost["num_frames"], "frame") << ", "
      << plural(cost["steps"], "step") << ", " << text_of(cost, "dtype");
  if (cost["vae_dtype"] != cost["dtype"]) out << " (VAE " << text_of(cost, "vae_dtype") << ')';
  out << ", prompts at their longest\n";
  out << "  " << left("tokens", 20) << grouped(cost["tokens"]) << '\n';
  for (const auto& [key, what] : {std::pair{"forward_flops", "a forward"}, {"total_flops", "in all"}}) {
    const double flops = cost[key];
    out << "  " << left(what, 20) << human_flops(flops) << " (" << grouped(std::llround(flops)) << ")\n";
  }
  const OrderedJson& memory = cost["memory"];
  for (const auto& [part, bytes] : memory["weights"].items()) print_bytes(out, part, bytes);
  for (const auto& [region, bytes] : memory.items())
    if (bytes.is_number()) print_bytes(out, region, bytes);
}

std::string file_as_text(const OrderedJson& facts) {
  std::ostringstream out;
  out << text_of(facts, "path") << ": " << text_of(facts, "looks_like") << "\n  " << grouped(facts["parameters"])
      << " elements in " << plural(facts["tensors"], "tensor") << ", types " << facts["stored"].dump() << ", "
      << human_bytes(facts["bytes"]) << '\n';
  return out.str();
}

}  // namespace

std::string inspect_as_text(const OrderedJson& facts) {
  if (facts["kind"] == "file") return file_as_text(facts);
  std::ostringstream out;
  out << text_of(facts, "name") << ": " << facts.value("what", "not a model that can be run as it is") << " ("
      << text_of(facts, "class") << ")\n";
  if (facts.contains("recipes"))
    for (const auto& [kind, fields] : facts["recipes"].items()) print_recipe(out, kind, fields);
  for (const auto& part : facts["parts"]) print_part(out, part);
  if (!facts["problems"].empty()) out << '\n';
  for (const auto& problem : facts["problems"]) out << "problem: " << problem.get<std::string>() << '\n';
  if (facts.contains("cost")) print_cost(out, facts["cost"]);
  return out.str();
}

}  // namespace zoetrope
