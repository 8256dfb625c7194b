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
  // `source` is borrowed.
  DryRuns(const ModelSource& source, Traits traits, DType dtype, DType vae_dtype, MeshRank at = {});

  const Cost& of(const Request& request);  // good until the next call
  int64_t made() const { return made_; }   // how many were not there already
  static constexpr size_t kept = 8;        // shapes

 private:
  const ModelSource& source_;
  Traits traits_;
  DType dtype_, vae_dtype_;
  MeshRank at_;
  std::deque<std::pair<Request, Cost>> last_;  // latest first
  int64_t made_ = 0;
};

}  // namespace zoetrope
