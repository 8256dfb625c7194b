// The report of a job: what was run, with what, how long and how much memory. Field names are part of the contract.
#pragma once
#include "engine/rank_worker.h"

namespace zoetrope {

// Bytes a rank holds or held at most, by region.
Json memory_report(const Rank& rank);
Json versions_report();
Json timings_report(const Timings& timings, double load, double total);
// All that the ranks know about a job; where it ran and what came out is added by the engine.
Json job_report(const EngineConfig& config, const Request& request, const RankResult& result, double total);

}  // namespace zoetrope
