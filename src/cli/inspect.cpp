#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "cli/ask_options.h"
#include "cli/commands.h"
#include "cli/edge.h"
#include "cli/open_model.h"
#include "cli/type_options.h"
#include "engine/inspect.h"
#include "ops/cpu/backend.h"
#include "pipeline/facts.h"
#include "plan/mesh_cost.h"

namespace zoetrope::cli {
namespace {

struct Options {
  std::string what, config;
  std::optional<int> ranks;
  bool json = false, cost = false;
  AskOptions ask;
  TypeOptions types;
};

// What the configuration makes ready is what it is judged by; `--size` and `--num-frames` come first.
void fill_shape(Ask& ask, const Settings& settings) {
  if (!ask.width && !ask.height && !settings.resolutions.empty()) {
    require(settings.resolutions.size() == 1, "cost: compilation_config.resolutions has ", settings.resolutions.size(),
            " sizes; choose one with --size");
    ask.height = settings.resolutions[0].height, ask.width = settings.resolutions[0].width;
  }
  if (ask.num_frames || settings.num_frames.empty()) return;
  require(settings.num_frames.size() == 1, "cost: compilation_config.num_frames has ", settings.num_frames.size(),
          " lengths; choose one with --num-frames");
  ask.num_frames = settings.num_frames[0];
  if (!ask.frames_policy) ask.frames_policy = "floor";  // as warm-up reads them
}

MeshCost cost_on_mesh(const Options& o, const ModelSource& source) {
  const MeshHeads heads = mesh_heads(source);
  Ask ask = o.ask.ask();
  Layout layout;
  if (!o.config.empty()) {
    const Settings settings = read_settings(o.config);
    layout = layout_of(settings);
    check(layout.shape, o.ranks.value_or(layout.shape.world()), heads);
    fill_shape(ask, settings);
  }
  const Request request = resolve(ask, model_info(source), 0);
  if (o.config.empty()) layout.shape = default_mesh(*o.ranks, request.guidance_scale, heads);
  return mesh_cost(source, request, cpu_traits(), o.types.dtype(), o.types.vae_dtype(), layout);
}

struct Found {
  OrderedJson facts;
  std::optional<MeshCost> mesh;  // the cost, where it is one of many ranks
};

Found look(const Options& o, const World& world) {
  if (std::filesystem::is_regular_file(o.what)) {
    require(!o.cost, "cost: ", o.what, " is one file; a model folder or name is needed");
    return {inspect_file(o.what), {}};
  }
  const ModelSource source = survey_model(o.what, world.hub);
  Found found{inspect_model(source), {}};
  if (!o.cost || !found.facts["problems"].empty()) return found;  // what is not whole has no price
  if (o.ranks || !o.config.empty()) {
    found.mesh = cost_on_mesh(o, source);
    return found;
  }
  const Request request = resolve(o.ask.ask(), model_info(source), 0);
  found.facts["cost"] = inspect_cost(source, request, o.types.dtype(), o.types.vae_dtype());
  return found;
}

std::string as_text(const Found& found) {
  return inspect_as_text(found.facts) + (found.mesh ? as_text(*found.mesh) : "");
}

std::string as_json(Found found) {
  if (found.mesh) found.facts["cost"] = as_json(*found.mesh);
  return found.facts.dump(2) + "\n";
}

int inspect(const Options& o, const World& world) {
  require(o.cost || (!o.ranks && o.config.empty()), "inspect: --ranks and --config go with --cost");
  const Found found = look(o, world);
  std::printf("%s", o.json ? as_json(found).c_str() : printable(as_text(found)).c_str());
  return found.facts.contains("problems") && !found.facts["problems"].empty() ? 2 : 0;
}

}  // namespace

void add_inspect(CLI::App& app, const World& world, Action& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("inspect", "say what a model folder, a file or a model name is, and what it costs");
  command
      ->add_option("what", o->what, cat("folder, owner/name, FILE.safetensors, or a released model: ", preset_names()))
      ->required();
  command->add_flag("--json", o->json, "print JSON");
  command->add_flag("--cost", o->cost,
                    "parameters, FLOPs and peak memory of a request, from a dry run with prompts of 512 tokens");
  o->types.add(*command);
  command->add_option("--ranks", o->ranks, "ranks of a mesh; without --config, laid out by the rule for a bare --ranks")
      ->type_name("N");
  command->add_option("--config", o->config, "YAML file with a mesh, and the size it makes ready")->type_name("FILE");
  o->ask.add(*command);
  command->callback([o, &world, &chosen] { chosen = [o, &world] { return inspect(*o, world); }; });
}

}  // namespace zoetrope::cli
