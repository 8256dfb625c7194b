// What a request and a report need to know about a model, read off its configs, and whether its parts fit together.
#pragma once
#include "config/request.h"
#include "models/source.h"
#include "sched/schedule.h"

namespace zoetrope {

// Checks that transformer(s), VAE and text encoder are of classes we have and belong together; Error names the file of
// the part that does not.
ModelInfo model_info(const ModelSource& source);
// A part's checkpoint against what its class expects, without reading a tensor: one Error names all that are missing,
// unknown or of another shape, and the file.
void check_part(const std::string& name, const ModelPart& part);
// The same for all parts: one Error with the complaints about each.
void check_parts(const ModelSource& source);
// That each of a tokenizer's `ids` has a row in the text encoder's table.
void check_tokenizer(const ModelSource& source, int64_t ids);
SchedulerConfig scheduler_config(const ModelSource& source, const Request& request);

}  // namespace zoetrope
