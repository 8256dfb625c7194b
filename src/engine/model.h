// A model before any weight is read, and requests as far as it alone decides about them.
#pragma once
#include <memory>

#include "core/pool.h"
#include "engine/config.h"
#include "io/tokenizer.h"
#include "models/source.h"
#include "pipeline/text_to_video.h"
#include "sched/schedule.h"

namespace zoetrope {

// A request with all that follows from it: equal on every rank that makes it from the same Ask.
struct Task {
  Ask ask;  // as it was said: a seed that was drawn stands in the request
  Request request;
  SchedulerConfig scheduler;
  PromptIds ids;
  bool warm_up = false;  // only to make its shape ready: see warm_up.h
};

class Model {
 public:
  // Reads configs and headers; Error names a part that is missing, unknown or does not fit.
  explicit Model(const EngineConfig& config);

  const ModelSource& source() const { return source_; }
  const ModelInfo& info() const { return info_; }
  MeshHeads heads() const { return mesh_heads(source_); }
  std::string fingerprint() const;  // of configs, names and shapes: equal for the same model in two places

  // Refuses whatever can be refused without computing. A seed is drawn where none was asked for.
  Task task(const Ask& ask) const;
  Request resolve(const Ask& ask) const;

 private:
  Pool pool_;  // reads weights, or makes random ones; ranks that load at the same time share it
  ModelSource source_;
  ModelInfo info_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

}  // namespace zoetrope
