// The report of a job: what was run, with what, how long and how much memory. Field names are part of the contract.
#pragma once
#include "engine/rank_worker.h"
#include "ops/cuda/backend.h"

namespace zoetrope {

// Bytes a rank held at most. `before`: in use on its device before it took any; only of a device.
Json memory_report(const RankResult& result, int64_t before);
Json versions_report(const std::optional<CudaFacts>& gpu);
Json timings_report(const Timings& timings, double load, double total);
// All that the ranks know about a job; where it ran and what came out is added by the engine.
Json job_report(const EngineConfig& config, const Request& request, const RankResult& result, double total);

}  // namespace zoetrope
