// The report of a job: what was run, with what, how long and how much memory. Field names are part of the contract.
#pragma once
#include "base/json.h"
#include "config/request.h"
#include "core/ctx.h"
#include "pipeline/text_to_video.h"

namespace zoetrope {

// Bytes a rank holds or held at most, by region.
Json memory_report(const Rank& rank);
Json versions_report();
Json timings_report(const Timings& timings, double load, double total);

}  // namespace zoetrope
