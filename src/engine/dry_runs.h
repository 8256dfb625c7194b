// Dry runs of the shapes asked for last: what a request needs depends on its sizes, steps and guidance, not on its
// words or its seed, so a job of a shape that was just run needs no dry run of its own.
#pragma once
#include <cstdint>
#include <deque>
#include <utility>

#include "engine/memory.h"

namespace zoetrope {

class DryRuns {
 public:
  explicit DryRuns(DryModel model, MeshRank at = {}) : model_(std::move(model)), at_(std::move(at)) {}

  const DryModel& model() const { return model_; }
  const Cost& of(const Request& request, Residency residency = Residency::all);  // good until the next call
  int64_t made() const { return made_; }                                         // how many were not there already
  static constexpr size_t kept = 8;                                              // shapes and residencies

 private:
  using Shape = std::pair<Request, Residency>;

  DryModel model_;
  MeshRank at_;
  std::deque<std::pair<Shape, Cost>> last_;  // latest first
  int64_t made_ = 0;
};

}  // namespace zoetrope
