#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "cli/ask_options.h"
#include "cli/commands.h"
#include "cli/edge.h"
#include "cli/open_model.h"
#include "cli/type_options.h"
#include "engine/inspect.h"
#include "pipeline/facts.h"

namespace zoetrope::cli {
namespace {

struct Options {
  std::string what, config;
  int ranks = 1;
  bool json = false, cost = false;
  AskOptions ask;
  TypeOptions types;
};

OrderedJson facts_of(const Options& o, const World& world) {
  if (std::filesystem::is_regular_file(o.what)) {
    require(!o.cost, "cost: ", o.what, " is one file; a model folder or name is needed");
    return inspect_file(o.what);
  }
  const ModelSource source = survey_model(o.what, world.hub);
  OrderedJson facts = inspect_model(source);
  if (!o.cost || !facts["problems"].empty()) return facts;  // what is not whole has no price
  if (o.ranks != 1 || !o.config.empty())
    fail(Code::unsupported, "cost: meshes are not built in this version; leave --ranks and --config out");
  const Request request = resolve(o.ask.ask(), model_info(source), 0);
  facts["cost"] = inspect_cost(source, request, o.types.dtype(), o.types.vae_dtype());
  return facts;
}

int inspect(const Options& o, const World& world) {
  const OrderedJson facts = facts_of(o, world);
  std::printf("%s", o.json ? (facts.dump(2) + "\n").c_str() : printable(inspect_as_text(facts)).c_str());
  return facts.contains("problems") && !facts["problems"].empty() ? 2 : 0;
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
  command->add_option("--ranks", o->ranks, "ranks of the mesh")->type_name("N");
  command->add_option("--config", o->config, "YAML file with a mesh")->type_name("FILE");
  o->ask.add(*command);
  command->callback([o, &world, &chosen] { chosen = [o, &world] { return inspect(*o, world); }; });
}

}  // namespace zoetrope::cli
