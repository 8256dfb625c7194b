#include "engine/report.h"

#include "ops/cpu/version.h"
#include "version.h"

namespace zoetrope {

Json memory_report(const Rank& rank) {
  Json weights = Json::object();
  for (const auto& [component, bytes] : weights_of(rank)) weights[component] = bytes;
  return {{"weights", weights},
          {"request", rank.request->peak()},
          {"scratch", rank.scratch->peak()},
          {"exchange", rank.exchange->peak()}};
}

// Null: not in this build.
Json versions_report() {
  return {{"zoetrope", ZOETROPE_VERSION},
          {"git", ZOETROPE_GIT},
          {"onednn", onednn_version()},
          {"cuda", nullptr},
          {"driver", nullptr},
          {"cudnn", nullptr},
          {"nccl", nullptr}};
}

Json job_report(const EngineConfig& config, const Request& request, const RankResult& result, double total) {
  Json memory = Json::array();
  double flops = 0;
  for (const Json& rank : result.ranks) memory.push_back(rank.at("memory")), flops += rank.at("flops").get<double>();
  Json report = to_json(request);
  report.update({{"device", name(config.device)},
                 {"dtype", name(config.dtype)},
                 {"vae_dtype", name(config.vae_dtype)},
                 {"ranks", result.ranks.size()},
                 {"tuned", false},
                 {"table_hash", nullptr},
                 {"warnings", Json::array()},
                 {"guardrails", "none"},
                 {"versions", versions_report()},
                 {"timings_s", timings_report(result.facts.timings, result.load_seconds, total)},
                 {"peak_memory_bytes", memory},
                 {"collectives", Json(as_json(result.facts.forward))},
                 {"flops", {{"forward", result.cost.forward_flops}, {"total", flops}}}});
  return report;
}

Json timings_report(const Timings& timings, double load, double total) {
  return {{"load", load},
          {"text_encode", timings.text_encode},
          {"denoise", timings.denoise},
          {"steps", timings.steps},
          {"vae_decode", timings.vae_decode},
          {"encode", timings.encode},
          {"tail", timings.encode},
          {"total", total}};
}

}  // namespace zoetrope
