#include "engine/report.h"

#include <algorithm>

#include "ops/cpu/version.h"
#include "version.h"

namespace zoetrope {

Json memory_report(const RankResult& result, int64_t before) {
  const MemoryNeed peaks = peaks_of(result.facts.memory);
  const int64_t predicted = most_at_once(result.cost.stages);
  int64_t device = 0;
  for (const StageMemory& stage : result.facts.memory) device = std::max(device, stage.device);
  Json report = {{"weights", peaks.weights},
                 {"request", peaks.request},
                 {"scratch", peaks.scratch},
                 {"exchange", peaks.exchange},
                 {"total", most_at_once(result.facts.memory)},
                 {"predicted", predicted},
                 {"device", nullptr},
                 {"device_predicted", nullptr}};
  if (device > 0) report["device"] = device, report["device_predicted"] = before + predicted + result.cost.fixed;
  return report;
}

// Null: not used, or not in this build.
Json versions_report(const std::optional<CudaFacts>& gpu) {
  const auto of_gpu = [&](const std::string CudaFacts::*text) { return gpu ? Json((*gpu).*text) : Json(); };
  return {{"zoetrope", ZOETROPE_VERSION},         {"git", ZOETROPE_GIT},
          {"onednn", onednn_version()},           {"cuda", of_gpu(&CudaFacts::runtime)},
          {"driver", of_gpu(&CudaFacts::driver)}, {"cudnn", of_gpu(&CudaFacts::cudnn)},
          {"gpu", of_gpu(&CudaFacts::name)},      {"nccl", nullptr}};
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
                 {"residency", name(result.cost.residency)},
                 {"cuda_graph", result.graphs},
                 {"tuned", !result.table_hash.empty()},
                 {"table_hash", result.table_hash.empty() ? Json() : Json(result.table_hash)},
                 {"warnings", result.warnings},
                 {"guardrails", "none"},
                 {"versions", result.versions},
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
