#include "engine/report.h"

#include "ops/cpu/version.h"
#include "version.h"

namespace zoetrope {

Json memory_report(const Rank& rank) {
  Json weights = Json::object();
  for (const auto& [component, region] : rank.weights) weights[component] = region.peak();
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
