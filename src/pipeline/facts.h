// What a request and a report need to know about a model, read off its configs, and whether its parts fit together.
#pragma once
#include "config/request.h"
#include "models/source.h"
#include "sched/schedule.h"

namespace zoetrope {

// Checks that transformer(s), VAE and text encoder belong together; Error names the part that does not.
ModelInfo model_info(const ModelSource& source);
SchedulerConfig scheduler_config(const ModelSource& source, const Request& request);

}  // namespace zoetrope
