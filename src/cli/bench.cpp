#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/ask_options.h"
#include "cli/bench_load.h"
#include "cli/bench_work.h"
#include "cli/commands.h"
#include "cli/open_model.h"
#include "cli/signals.h"
#include "cli/type_options.h"
#include "eval/timing.h"
#include "models/models.h"
#include "nn/random.h"
#include "ops/cuda/backend.h"
#include "pipeline/facts.h"

namespace zoetrope::cli {
namespace {

struct Options {
  std::string what, model, part = "transformer", device = "cpu", tuning, stored, folder, json, out;
  int threads = 0, runs = 5;
  bool profile = false;
  AskOptions ask;
  TypeOptions types;
};

// ---- bench ------------------------------------------------------------------------------------------------------

// Times some work whose result lies where `result` says.
template <class Work>
OrderedJson time_work(BenchRank& rank, const Options& o, Work& work) {
  SameBits bits(rank, o.what);
  const Stopwatch first;
  work.run();  // chooses plans; the next one records what is replayed then
  rank.c.stream().sync();
  const double first_s = first.seconds();
  bits.see({work.result()});
  rank.rank.counts.clear();
  const Spread spread = timed(
      rank.c, o.runs, [&] { work.run(); }, [&] { bits.see({work.result()}); });
  OrderedJson json{{"first_s", first_s}, {"seconds", as_json(spread)}};
  rank.rank.counts.clear();
  const OpCounts counts = profiled(rank.c, [&] { work.run(); });
  const double flops = flops_of(counts);
  json["flops"] = flops;
  json["tflops"] = flops / spread.median / 1e12;
  json["profile"] = o.profile ? as_json(profile_of(counts, peak_of(rank.device_name()))) : OrderedJson(nullptr);
  json["digest"] = bits.hex();
  return json;
}

OrderedJson bench_step(BenchRank& rank, const Options& o, const ModelSource& source, const Request& request) {
  const ModelPart& part = source.at(o.part);
  const WanConfig config = wan_config(part.config);
  const Shape latents = latent_shape(source, request);
  StepWork work(rank, config, *part.weights, o.part, latents, o.types.dtype(), request.guided());
  OrderedJson json = time_work(rank, o, work);
  json["tokens"] = config.tokens(latents[0], latents[1], latents[2]);
  json["forwards"] = request.guided() ? 2 : 1;
  return json;
}

OrderedJson bench_attention(BenchRank& rank, const Options& o, const ModelSource& source, const Request& request) {
  const WanConfig config = wan_config(source.at(o.part).config);
  const Shape latents = latent_shape(source, request);
  const int64_t tokens = config.tokens(latents[0], latents[1], latents[2]);
  AttentionWork work(rank, config, tokens, o.types.dtype());
  OrderedJson json = time_work(rank, o, work);
  json["tokens"] = tokens;
  return json;
}

OrderedJson bench_vae(BenchRank& rank, const Options& o, const ModelSource& source, const Request& request) {
  const ModelPart& part = source.at("vae");
  const Shape latents = latent_shape(source, request);
  DecodeWork work(rank, wan_vae_config(part.config), *part.weights, latents, latents[0], o.types.vae_dtype());
  OrderedJson json = time_work(rank, o, work);
  json["latent_frames"] = latents[0];
  return json;
}

std::string range(const OrderedJson& spread) {
  char text[96];
  std::snprintf(text, sizeof text, "%.4g s [%.4g, %.4g] of %d runs", spread.at("median").get<double>(),
                spread.at("least").get<double>(), spread.at("most").get<double>(), spread.at("runs").get<int>());
  return text;
}

void print_load(const OrderedJson& json) {
  std::printf("%s: %s in %s, as %s\n", json.at("part").get<std::string>().c_str(),
              human_bytes(json.at("file_bytes").get<int64_t>()).c_str(),
              plural(json.at("files").get<int64_t>(), "file").c_str(), json.at("weights").get<std::string>().c_str());
  for (const char* cache : {"warm", "cold"}) {
    const OrderedJson& one = json.at(cache);
    if (one.is_null()) {
      std::printf("%s: the system does not forget these files when asked\n", cache);
      continue;
    }
    std::printf("%s: load %s, %.1f GB/s; plain read %s, %.1f GB/s; ratio %.3f\n", cache,
                range(one.at("load_s")).c_str(), one.at("load_s").at("gbytes_per_s").get<double>(),
                range(one.at("read_s")).c_str(), one.at("read_s").at("gbytes_per_s").get<double>(),
                one.at("ratio").get<double>());
    const OrderedJson& spent = one.at("spent_s");
    std::printf("  of a load: map %.4g s, wait for reads %.4g s, for the device %.4g s; %lld pieces in %lld batches\n",
                spent.at("map").get<double>(), spent.at("wait_for_reads").get<double>(),
                spent.at("wait_for_device").get<double>(), static_cast<long long>(one.at("pieces").get<int64_t>()),
                static_cast<long long>(one.at("batches").get<int64_t>()));
    if (const OrderedJson& link = one.at("link_s"); !link.is_null())
      std::printf("  link: the same bytes from pinned memory to the device %s, %.1f GB/s\n", range(link).c_str(),
                  link.at("gbytes_per_s").get<double>());
  }
}

void print_work(const std::string& what, const OrderedJson& json) {
  std::printf("%s: %s, %s, %.3g TFLOP/s\n", what.c_str(), range(json.at("seconds")).c_str(),
              human_flops(json.at("flops").get<double>()).c_str(), json.at("tflops").get<double>());
  if (json.at("profile").is_null()) return;
  for (const OrderedJson& row : json.at("profile"))
    std::printf("  %-20s %6lld calls %10.3f ms %5.1f %% %8.3g TFLOP/s %8.3g TB/s%s\n",
                row.at("op").get<std::string>().c_str(), static_cast<long long>(row.at("calls").get<int64_t>()),
                1e3 * row.at("seconds").get<double>(), 100 * row.at("share").get<double>(),
                row.at("tflops").get<double>(), row.at("tbytes").get<double>(),
                row.at("of_peak").is_null()
                    ? ""
                    : cat(' ', static_cast<int>(100 * row.at("of_peak").get<double>() + 0.5), " % of peak").c_str());
}

void check_what(const std::string& what) {
  for (const char* built : {"step", "vae", "attention", "load"})
    if (what == built) return;
  for (const char* later : {"collectives", "serve"})
    if (what == later)
      fail(Code::unsupported, "bench: ", what, ": not built in this version; step, vae, attention and load are");
  fail(Code::invalid, "bench: \"", what, "\" is not known; use step, vae, attention or load");
}

std::optional<DType> stored_type(const Options& o) {
  if (o.stored.empty()) return std::nullopt;
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    if (o.stored == name(type)) return type;
  fail(Code::invalid, "stored: \"", o.stored, "\" is not known; use fp32, bf16 or fp16");
}

LoadBench load_options(const Options& o) {
  LoadBench what{o.part, o.types.dtype(), stored_type(o), o.folder, o.runs};
  if (o.part == "vae") what.dtype = o.types.vae_dtype();
  return what;
}

// What would be ignored is refused, and what is wrong before anything is measured.
void check_options(const Options& o) {
  check_what(o.what);
  require(o.runs >= 1 && o.runs <= 1000, "runs: ", o.runs, " asked for; 1 to 1000 make sense");
  o.types.dtype(), o.types.vae_dtype(), stored_type(o);
  const bool load = o.what == "load";
  for (const auto& [option, value] : {std::pair("--stored", o.stored), {"--folder", o.folder}})
    require(load || value.empty(), "bench: ", o.what, ": ", option, " is for `bench load`; leave it out");
  require(!load || !o.profile, "bench: load: runs no ops to show; leave --profile out");
  require(o.stored.empty() == o.folder.empty(), "bench: load: --stored and --folder belong together");
  if (!o.json.empty()) const AtomicFile probe(o.json);  // now, rather than after minutes
}

// Of a model with `part` in it: whether it is one to time so.
void check_timed_part(const std::string& what, const std::string& part, const ModelSource& source) {
  const bool transformer = part.starts_with("transformer");
  if (what == "vae")
    require(part == "transformer" || part == "vae", "bench: vae: --part ", part, " is not the VAE; leave it out");
  else if (what != "load" && source.has(part))
    require(transformer, what, ": --part ", part, " is no transformer; transformer and transformer_2 are");
  const std::string used = what == "vae" ? what : part;
  check_part(used, source.at(used));
}

OrderedJson bench_size(BenchRank& rank, const Options& o, const ModelSource& source) try {
  const Request request = resolve(o.ask.ask(), model_info(source), 0);
  OrderedJson json{{"size", cat(request.width, 'x', request.height)}, {"num_frames", request.num_frames}};
  json.update(o.what == "step"  ? bench_step(rank, o, source, request)
              : o.what == "vae" ? bench_vae(rank, o, source, request)
                                : bench_attention(rank, o, source, request));
  return json;
} catch (const Error& error) {
  if (error.code() != Code::out_of_memory) throw;
  fail(error.code(), error.what(), "; a smaller --size, fewer --num-frames or --dtype bf16 needs less");
}

int bench(const Options& o, const World& world) {
  check_options(o);
  const Signals signals;
  BenchRank rank(parse_device(o.device), o.threads, o.tuning);
  const ModelSource source = open_model(o.model, world.hub, &rank.pool);
  check_timed_part(o.what, o.part, source);
  const StopScope stoppable(rank.rank, signals.token());
  OrderedJson json{{"bench", o.what}, {"model", source.name}};
  json.update(rank.facts());
  json["dtype"] = name(o.what == "vae" ? o.types.vae_dtype() : o.types.dtype());
  if (o.what == "load") {
    json.update(bench_load(rank, source, load_options(o), signals.token()));
    print_load(json);
  } else {
    json.update(bench_size(rank, o, source));
    print_work(o.what, json);
  }
  if (rank.on_cuda())
    for (const std::string& warning : cuda_tuning_warnings(*rank.backend))
      std::fprintf(stderr, "zoetrope: warning: %s\n", warning.c_str());
  if (!o.json.empty()) write_file(o.json, json.dump(2) + "\n");
  return 0;
}

// ---- tune -------------------------------------------------------------------------------------------------------

// One layer has the products of all; weights are random whatever the model, since no plan is faster for some numbers.
void tune_step(BenchRank& rank, const Options& o, const ModelSource& source, const Request& request) {
  WanConfig config = wan_config(source.at(o.part).config);
  config.layers = 1;
  nn::Random weights(0, &rank.pool);
  StepWork work(rank, config, weights, o.part, latent_shape(source, request), o.types.dtype(), false);
  work.run();
}

// The first latent frame, one behind it and one that has as many behind it as any.
void tune_vae(BenchRank& rank, const Options& o, const ModelSource& source, const Request& request) {
  nn::Random weights(0, &rank.pool);
  const Shape latents = latent_shape(source, request);
  DecodeWork work(rank, wan_vae_config(source.at("vae").config), weights, latents, std::min<int64_t>(3, latents[0]),
                  o.types.vae_dtype());
  work.run();
}

int tune(const Options& o, const World& world) {
  require(o.what == "step" || o.what == "vae" || o.what == "all", "tune: \"", o.what,
          "\" is not known; use step, vae or all");
  require(parse_device(o.device) == DeviceKind::cuda, "tune: device ", o.device,
          " has no plans to choose from; use --device cuda");
  const DType dtype = o.what == "vae" ? o.types.vae_dtype() : o.types.dtype();
  require(dtype == DType::bf16, "tune: ", dtype, " has no plans to choose from; use --dtype bf16");
  { const AtomicFile probe(o.out); }  // now, rather than after minutes
  const Signals signals;
  BenchRank rank(DeviceKind::cuda, o.threads, o.tuning);
  const ModelSource source = open_model(o.model, world.hub, &rank.pool);
  check_timed_part("step", o.part, source);
  const Request request = resolve(o.ask.ask(), model_info(source), 0);
  const StopScope stoppable(rank.rank, signals.token());
  rank.rank.segments.reset();  // plans are chosen while ops run, which no recording allows
  begin_cuda_tuning(*rank.backend);
  if (o.what != "vae") tune_step(rank, o, source, request);
  if (o.what != "step") tune_vae(rank, o, source, request);
  rank.c.stream().sync();
  write_file(o.out, end_cuda_tuning(*rank.backend));
  std::printf("%s\n", o.out.c_str());
  std::fprintf(stderr, "as configs/tuning/%s.json it ships with the program; else: --tuning %s\n",
               cuda_tuning_name(*rank.backend).c_str(), o.out.c_str());
  return 0;
}

void add_common(CLI::App& command, Options& o, const char* parts) {
  command.add_option("--model", o.model, model_help())->type_name("MODEL")->required();
  command.add_option("--part", o.part, parts)->type_name("PART")->capture_default_str();
  command.add_option("--device", o.device, "where to run")->type_name("cpu|cuda")->capture_default_str();
  o.types.add(command);
  command.add_option("--threads", o.threads, "CPU threads; 0, the default: all of the machine")->type_name("N");
  command.add_option("--tuning", o.tuning, "table of `zoetrope tune`; default: the one that ships for this GPU")
      ->type_name("FILE");
  o.ask.add(command, {"width", "height", "num_frames", "frames_policy", "guidance_scale", "recipe", "preset"});
}

}  // namespace

void add_bench(CLI::App& app, const World& world, Action& chosen) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "time a part of the work; each timing checks its result");
  command->add_option("what", o->what, "step, vae, attention or load")->required()->type_name("WHAT");
  add_common(*command, *o, "of the model: transformer, transformer_2; load: text_encoder and vae, too");
  command->add_option("--runs", o->runs, "timed ones, behind one to warm up")->type_name("N")->capture_default_str();
  command->add_flag("--profile", o->profile, "every op: time, share, how near the device's peak");
  command->add_option("--stored", o->stored, "load: make a sparse checkpoint of this type and read that")
      ->type_name("fp32|bf16|fp16");
  command->add_option("--folder", o->folder, "load: where to make it; what was made is removed at the end")
      ->type_name("DIR");
  command->add_option("--json", o->json, "write what was measured as JSON")->type_name("FILE");
  command->footer(
      "Median and spread of the runs; an error where a result is not finite or has other bits than the first.\n"
      "Examples:\n"
      "  zoetrope bench step --model toy --size 256x256 --num-frames 17\n"
      "  zoetrope bench load --model random:wan2.2-t2v-a14b --device cuda --dtype bf16 --stored bf16 --folder /tmp/w");
  command->callback([o, &world, &chosen] { chosen = [o, &world] { return bench(*o, world); }; });
}

void add_tune(CLI::App& app, const World& world, Action& chosen) {
  auto o = std::make_shared<Options>();
  o->device = "cuda";
  CLI::App* command =
      app.add_subcommand("tune", "time the plans of a GPU's libraries and write a table of the fastest");
  command->add_option("what", o->what, "step, vae or all")->required()->type_name("WHAT");
  add_common(*command, *o, "of the model: transformer, transformer_2");
  command->add_option("--out", o->out, "the table")->type_name("FILE")->required();
  command->footer(
      "Only plans that give the same bits compete. `generate --tuning FILE` uses the table; one in configs/tuning/ "
      "under\n"
      "the name that `doctor` prints ships with the program.");
  command->callback([o, &world, &chosen] { chosen = [o, &world] { return tune(*o, world); }; });
}

}  // namespace zoetrope::cli
