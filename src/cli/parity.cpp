#include "eval/parity.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "cli/ask_options.h"
#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/signals.h"
#include "cli/type_options.h"
#include "engine/memory.h"
#include "pipeline/facts.h"
#include "pipeline/layout.h"

namespace zoetrope::cli {
namespace {

struct Options {
  std::string model, config, device = "cpu", json;
  int sweep = 0;
  AskOptions ask;
  TypeOptions types;
};

// Small, with an odd number of tokens a frame: what any mesh must cope with, in seconds on a toy.
void fill_defaults(Ask& ask) {
  if (!ask.width) ask.width = 80;
  if (!ask.height) ask.height = 112;
  if (!ask.num_frames) ask.num_frames = 9;
  if (!ask.steps) ask.steps = 8;
  if (!ask.seed) ask.seed = 0;
  ask.prompt = "a red square moves to the left";
}

std::string bound_text(double bound) {
  if (bound == 0) return "bits";
  char text[16];
  std::snprintf(text, sizeof text, "%.0e", bound);
  return text;
}

std::string collectives_text(const Collectives& forward) {
  std::string text;
  for (const auto& [axis, verbs] : forward)
    for (const auto& [verb, traffic] : verbs)
      text += cat(text.empty() ? "" : ", ", traffic.calls, " ", name(verb), " ", axis);
  return text.empty() ? "none" : text;
}

void print_head(const Request& request) {
  std::printf("%dx%d, %d frames, %d steps, seed %llu; against one rank: max |difference| / max |reference|, bound\n",
              request.width, request.height, request.num_frames, request.steps,
              static_cast<unsigned long long>(request.seed));
  std::printf("%-44s %9s %9s %6s %9s %9s %6s %6s  %s\n", "mesh", "forward", "rel-L2", "bound", "published", "latents",
              "bound", "PSNR", "collectives a forward");
}

void print_row(const ParityRow& row) {
  std::printf("%-44s %9.1e %9.1e %6s %9s %9.1e %6s %6.1f  %s%s\n", row.layout.text().c_str(), row.velocity.relative(),
              row.velocity.rel_l2, bound_text(row.velocity_bound).c_str(),
              row.velocity.outside == 0 ? "within" : cat(row.velocity.outside, " out").c_str(), row.latents.relative(),
              bound_text(row.latents_bound).c_str(), row.worst_psnr, collectives_text(row.forward).c_str(),
              row.failure.empty() ? "" : ("  FAIL: " + row.failure).c_str());
  std::fflush(stdout);
}

// JSON has no infinity, and "the same" says what it means.
OrderedJson decibels(double psnr) { return std::isfinite(psnr) ? OrderedJson(psnr) : OrderedJson("same pixels"); }

OrderedJson as_json(const ParityRow& row) {
  const auto difference = [](const Difference& d, double bound) {
    return OrderedJson{{"max_abs", d.max_abs},
                       {"max_ref", d.max_ref},
                       {"rms_ref", d.rms},
                       {"rel_l2", d.rel_l2},
                       {"bound", bound},
                       {"same_bits", d.same_bits},
                       {"outside_published", d.outside}};
  };
  OrderedJson forward = OrderedJson::object();
  for (const auto& [axis, verbs] : row.forward)
    for (const auto& [verb, traffic] : verbs)
      forward[axis][name(verb)] = {{"count", traffic.calls}, {"bytes", traffic.bytes}};
  return {{"mesh", row.layout.text()},
          {"ranks", row.layout.shape.world()},
          {"exact", row.layout.exact()},
          {"forward", difference(row.velocity, row.velocity_bound)},
          {"latents", difference(row.latents, row.latents_bound)},
          {"frames",
           {{"worst_psnr", decibels(row.worst_psnr)},
            {"bound", row.psnr_bound == 0 ? OrderedJson(nullptr) : decibels(row.psnr_bound)}}},
          {"collectives", forward},
          {"failure", row.failure}};
}

std::vector<Layout> layouts_of(const Options& o, const MeshHeads& heads) {
  if (o.sweep > 0) return all_layouts(o.sweep, heads);
  const Layout layout = layout_of(read_settings(o.config));
  check(layout.shape, layout.shape.world(), heads);
  return {layout};
}

int parity(const Options& o, const World& world) {
  require(o.sweep >= 0, "sweep: ", o.sweep, " asked for; a number of ranks is needed");
  require(o.config.empty() != (o.sweep == 0), "parity: give either --config FILE or --sweep N");
  ParityOptions options{parse_device(o.device)};
  const DType dtype = o.types.dtype(), vae_dtype = o.types.vae_dtype();
  if (!o.json.empty()) const AtomicFile probe(o.json);  // now, rather than after minutes
  const Signals signals;
  options.stop = signals.token();
  if (options.device == DeviceKind::cpu) options.memory_limit = static_cast<size_t>(available_memory());
  const ModelSource source = open_model(o.model, world.hub);
  const std::vector<Layout> layouts = layouts_of(o, mesh_heads(source));
  Ask ask = o.ask.ask();
  fill_defaults(ask);
  const Request request = resolve(ask, model_info(source), 0);
  const Parity one(source, request, dtype, vae_dtype, options);
  print_head(request);
  OrderedJson rows = OrderedJson::array();
  size_t missed = 0;
  for (const Layout& layout : layouts) {
    const ParityRow row = one.check(layout);
    print_row(row);
    rows.push_back(as_json(row));
    missed += !row.failure.empty();
  }
  std::printf("%zu of %zu within every bound\n", rows.size() - missed, rows.size());
  if (!o.json.empty())
    write_file(o.json, OrderedJson{{"model", source.name},
                                   {"dtype", name(dtype)},
                                   {"published_bound", {{"atol", published_atol}, {"rtol", published_rtol}}},
                                   {"rows", rows}}
                               .dump(2) +
                           "\n");
  return missed == 0 ? 0 : 1;
}

}  // namespace

void add_parity(CLI::App& app, const World& world, Action& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("parity", "compare meshes of ranks with one rank, number by number");
  command->add_option("--model", o->model, model_help())->type_name("MODEL")->required();
  command->add_option("--config,--visual_gen_args", o->config, "YAML file with the mesh to compare")->type_name("FILE");
  command->add_option("--sweep", o->sweep, "every legal mesh of N ranks, in each form")->type_name("N");
  command
      ->add_option("--device", o->device,
                   "where to run: all ranks are threads of one process, on the CPU or on one GPU")
      ->type_name("cpu|cuda")
      ->capture_default_str();
  o->types.add(*command);
  command->add_option("--json", o->json, "write the rows as JSON")->type_name("FILE");
  o->ask.add(*command);
  command->footer(
      "Exit status 1 if any mesh is out of bound. Without sizes: 80x112, 9 frames, 8 steps.\n"
      "Example:\n"
      "  zoetrope make-toy --kind wan-a14b --out toy\n"
      "  zoetrope parity --model toy --sweep 4");
  command->callback([o, &world, &chosen] { chosen = [o, &world] { return parity(*o, world); }; });
}

}  // namespace zoetrope::cli
