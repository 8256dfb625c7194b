#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/ask_options.h"
#include "cli/commands.h"
#include "cli/edge.h"
#include "cli/open_model.h"
#include "cli/processes.h"
#include "cli/progress.h"
#include "cli/rank_options.h"
#include "cli/signals.h"
#include "cli/type_options.h"
#include "comm/agree.h"
#include "config/fields.h"
#include "engine/contact_sheet.h"
#include "engine/engine.h"
#include "io/prompt.h"

namespace zoetrope::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model, prompt, prompt_file, out, device = "cpu", tuning, report, sheet;
  bool quiet = false;
  AskOptions ask;
  RankOptions ranks;
  TypeOptions types;
  CLI::Option* prompt_given = nullptr;
};

std::string read_prompt(const Options& o) {
  if (o.prompt_file.empty()) {
    require(o.prompt_given->count() > 0, "prompt: none given; use --prompt TEXT or --prompt-file FILE");
    return o.prompt;
  }
  require(o.prompt_given->count() == 0, "prompt: --prompt and --prompt-file exclude each other");
  if (o.prompt_file != "-") return read_file(o.prompt_file, max_prompt_bytes);
  std::string text(max_prompt_bytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), stdin));
  require(std::ferror(stdin) == 0, "prompt: standard input cannot be read: ", std::strerror(errno));
  require(text.size() <= max_prompt_bytes, "prompt: standard input holds more than the ", max_prompt_bytes,
          " bytes allowed; the model reads about 500 words at most");
  return text;
}

EngineConfig engine_config(const Options& o, const RankPlan& plan) {
  EngineConfig config;
  config.device = parse_device(o.device);
  config.dtype = o.types.dtype();
  config.vae_dtype = o.types.vae_dtype();
  config.tuning = o.tuning;
  config.guidance = o.ask.ask().guidance_scale;
  plan.apply(config);
  return config;
}

void choose_model(EngineConfig& config, const std::string& model, const World& world) {
  if (model.starts_with(random_prefix))
    config.random_model = model.substr(std::string_view(random_prefix).size());
  else
    config.model = find_model(model, world.hub), config.model_name = model;
}

void print_result(const Json& report, bool quiet) {
  const Json& out = report.at("output");
  std::printf("%s\n", out.at("path").get<std::string>().c_str());
  if (quiet) return;
  std::fprintf(stderr, "%dx%d, %s at %d fps, %s, seed %s\n", out.at("width").get<int>(), out.at("height").get<int>(),
               plural(out.at("num_frames"), "frame").c_str(), out.at("fps").get<int>(),
               report.at("recipe").get<std::string>().c_str(), report.at("seed").dump().c_str());
  const Json& t = report.at("timings_s");
  std::fprintf(stderr, "load %.1f s, text %.1f s, denoise %.1f s, decode %.1f s, encode %.1f s, total %.1f s\n",
               t.at("load").get<double>(), t.at("text_encode").get<double>(), t.at("denoise").get<double>(),
               t.at("vae_decode").get<double>(), t.at("encode").get<double>(), t.at("total").get<double>());
  for (const Json& warning : report.at("warnings"))
    std::fprintf(stderr, "zoetrope: warning: %s\n", warning.get<std::string>().c_str());
}

// What a name leads to: "./a", "a/" and a link to a are one file.
fs::path place(const std::string& name) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(name, error), error);
  return whole.has_filename() ? whole : whole.parent_path();
}

// A file beside the video. Now, rather than after the video is made.
void check_beside(const char* what, const std::string& file, const Options& o) {
  if (file.empty()) return;
  require(place(file) != place(o.out), what, ": ", file, " is the name of the video, too; give another");
  require(place(file).parent_path() != place(o.out), what, ": ", file,
          " would lie among the frames, where nothing else may; give a name outside");
  try {
    const AtomicFile probe(file);
  } catch (const Error& error) {
    fail(error.code(), what, ": ", error.what());
  }
}

// Checks now what would fail once the video is made.
std::unique_ptr<Output> open_outputs(const Options& o, const World& world) {
  auto output = open_output(o.out, world.program_folder, world.path);
  if (!o.sheet.empty()) output = std::make_unique<ContactSheet>(std::move(output), o.sheet);
  check_beside("report", o.report, o);
  check_beside("contact-sheet", o.sheet, o);
  require(o.report.empty() || o.sheet.empty() || place(o.report) != place(o.sheet), "report: ", o.report,
          " is the name of the contact sheet, too; give another");
  return output;
}

void lead(const Options& o, const World& world, Engine& engine, const Ask& ask, std::unique_ptr<Output> output,
          const std::stop_token& stop) {
  if (engine.ranks() > 1 && !o.quiet)
    std::fprintf(stderr, "mesh: %s, %d ranks\n", engine.layout().text().c_str(), engine.ranks());
  ProgressPrinter printer(o.quiet, world.terminal);
  engine.warm_up(stop, std::ref(printer), &ask);
  const auto job = engine.submit(ask, std::move(output), std::ref(printer));
  const std::stop_callback cancel(stop, [&] { job->cancel(); });
  const Json report = job->wait();
  printer.close_line();
  if (!o.report.empty()) write_file(o.report, report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  print_result(report, o.quiet);
}

// Runs what this rank does by itself while the other processes wait for it: they hear why, if it throws.
template <class F>
auto while_others_wait(zoetrope::World* ranks, int rank, F body) try {
  return body();
} catch (const AgreedError&) {
  throw;
} catch (...) {
  if (ranks) ranks->abort(current_cause(rank));
  throw;
}

// What rank 0's request has to be. Where standard input holds the prompt, rank 0 alone has it.
Json expected_of(const Options& o, Ask ask) {
  const bool prompt_here = o.prompt_file != "-";
  if (prompt_here) ask.prompt = read_prompt(o);
  Json expected = to_json(ask);
  if (!prompt_here) expected.erase("prompt");
  return expected;
}

std::unique_ptr<Engine> start(EngineConfig config, const Options& o, const World& world, zoetrope::World* ranks) {
  choose_model(config, o.model, world);
  if (world.prepare) world.prepare(config);
  return std::make_unique<Engine>(config, ranks);
}

int generate(const Options& o, const World& world) {
  const RankPlan plan = o.ranks.plan(world);
  if (plan.processes > 1)
    return run_processes(plan.processes, world, o.prompt_file == "-" ? read_prompt(o) : "", o.out);
  Ask ask = o.ask.ask();
  const bool leads = plan.rank() == 0;
  if (leads) ask.prompt = read_prompt(o);
  const Signals signals([&] {
    if (leads) remove_partial(o.out);
  });  // before any thread
  auto output = leads ? open_outputs(o, world) : nullptr;
  const EngineConfig config = engine_config(o, plan);

  const auto ranks = plan.join();
  const auto alone = [&](auto body) { return while_others_wait(ranks.get(), plan.rank(), body); };
  try {
    const auto engine = alone([&] { return start(config, o, world, ranks.get()); });
    if (leads)
      lead(o, world, *engine, ask, std::move(output), signals.token());
    else
      engine->follow(alone([&] { return expected_of(o, ask); }), signals.token());
  } catch (const AgreedError& error) {
    if (leads) throw;
    return exit_status(error.code());  // rank 0 says it
  }
  return 0;
}

}  // namespace

void add_generate(CLI::App& app, const World& world, Action& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("generate", "make a video from a prompt");
  command->add_option("--model", o->model, model_help())->type_name("MODEL")->required();
  o->prompt_given = command->add_option("--prompt", o->prompt, "what the video should show");
  command->add_option("--prompt-file", o->prompt_file, "file with the prompt; - reads standard input")
      ->type_name("FILE");
  command->add_option("--out", o->out, "FILE.mp4, FILE.safetensors, or a folder for PNG files")
      ->type_name("FILE|DIR/")
      ->required();
  o->ask.add(*command);
  command->add_option("--device", o->device, "where to run")->type_name("cpu|cuda")->capture_default_str();
  o->types.add(*command);
  command->add_option("--tuning", o->tuning, "table of `zoetrope tune`; default: the one that ships for this GPU")
      ->type_name("FILE");
  o->ranks.add(*command);
  command->add_option("--contact-sheet", o->sheet, "also write eight of the frames as one picture")
      ->type_name("FILE.png");
  command->add_option("--report", o->report, "write a report as JSON")->type_name("FILE");
  command->add_flag("--quiet", o->quiet, "no progress, only the result");
  command->footer(
      "What is not given comes from the model's recipe; `zoetrope inspect MODEL` prints it.\n"
      "Example:\n"
      "  zoetrope make-toy --kind wan --out toy\n"
      "  zoetrope generate --model toy --prompt \"a cat on a beach\" --out cat.mp4\n"
      "Several ranks give the frames of one; without --config their mesh follows a rule and is printed:\n"
      "  zoetrope generate --model toy --prompt \"a cat\" --out cat.mp4 --ranks 2\n"
      "  mpirun -n 4 zoetrope generate --model toy --prompt \"a cat\" --out cat.mp4");
  command->callback([o, &world, &chosen] { chosen = [o, &world] { return generate(*o, world); }; });
}

}  // namespace zoetrope::cli
