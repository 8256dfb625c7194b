#include "engine/model.h"

#include <random>

#include "base/error.h"
#include "base/sha256.h"
#include "pipeline/facts.h"
#include "pipeline/latents.h"
#include "sched/noise.h"

namespace zoetrope {
namespace {

uint64_t fresh_seed() {
  std::random_device entropy;
  return entropy();  // 32 bits: short enough to be typed again
}

ModelSource open_source(const EngineConfig& config, Pool* pool) {
  require(!config.model.empty() || !config.random_model.empty(), "model: no name given; use a folder, ",
          "a Hugging Face name like owner/name, or ", random_prefix, "NAME");
  return config.random_model.empty() ? open_model_folder(config.model, config.model_name, pool)
                                     : open_random_model(config.random_model, 0, pool);
}

}  // namespace

Model::Model(const EngineConfig& config)
    : pool_(config.thread_count()),
      source_(open_source(config, &pool_)),
      info_(model_info(source_)),
      tokenizer_(open_tokenizer(source_)) {
  check_parts(source_);
  check_tokenizer(source_, tokenizer_->ids());
}

std::string Model::fingerprint() const {
  Sha256 hash;
  const auto add = [&](const std::string& text) { hash.update(std::as_bytes(std::span(text))); };
  add(source_.index.dump() + source_.scheduler.dump());
  for (const auto& [name, part] : source_.parts) {
    add(name + part.config.dump());
    if (!part.checkpoint) continue;
    for (const auto& [key, entry] : part.checkpoint->entries()) add(cat(key, entry.shape, entry.dtype));
  }
  return hash.hex().substr(0, 16);
}

Request Model::resolve(const Ask& ask) const {
  Request request = zoetrope::resolve(ask, info_, fresh_seed());
  parse_noise(request.noise);
  return request;
}

Task Model::task(const Ask& ask) const {
  Task task{ask, resolve(ask), {}, {}, false};
  task.scheduler = scheduler_config(source_, task.request);
  make_schedule(task.scheduler, task.request.steps, parse_grid(task.request.schedule));
  task.ids = encode_prompts(*tokenizer_, task.request);
  task.request.warnings.insert(task.request.warnings.end(), task.ids.warnings.begin(), task.ids.warnings.end());
  check_latents(task.request, info_);
  return task;
}

}  // namespace zoetrope
