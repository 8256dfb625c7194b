// What `bench` and `tune` run on: one rank on a device, its weights shared with nobody.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/tuning.h"
#include "models/source.h"
#include "ops/backend.h"

namespace zoetrope::cli {

class BenchRank {
 public:
  // `threads` 0: all of the machine. `tuning`: a table of `zoetrope tune`, empty: the shipped one if there is one.
  BenchRank(DeviceKind device, int threads, const std::string& tuning);

  bool on_cuda() const { return rank.traits.device == DeviceKind::cuda; }
  Tensor random(const Shape& shape, uint64_t seed, DType type);  // uniform, of unit variance, in the request region
  uint64_t digest(const std::vector<Tensor>& tensors);
  OrderedJson facts() const;  // device, libraries, table
  std::string device_name() const;

  Pool pool;
  std::unique_ptr<Backend> backend;
  SharedWeights shared;
  Rank rank;
  Ctx c;
  TuningUsed tuning;

 private:
  Rank& prepare();
};

// Results of repeated runs: finite, and the same bits each time, or an Error that says which run was not.
class SameBits {
 public:
  SameBits(BenchRank& rank, std::string what) : rank_(rank), what_(std::move(what)) {}
  void see(const std::vector<Tensor>& results);  // fp32 or bf16
  std::string hex() const;

 private:
  BenchRank& rank_;
  std::string what_;
  uint64_t first_ = 0;
  int seen_ = 0;
};

}  // namespace zoetrope::cli
