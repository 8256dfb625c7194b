// `bench load`: how long a component's weights take, against a plain read of the same files.
#pragma once
#include <optional>
#include <stop_token>
#include <string>

#include "cli/bench_rank.h"

namespace zoetrope::cli {

struct LoadBench {
  std::string part;             // "transformer"
  DType dtype = DType::bf16;    // weights become
  std::optional<DType> stored;  // a sparse checkpoint of this type is made in `folder` and removed; else the model's
  std::string folder;
  int runs = 5;
};

// Cold, where the system forgets the files when asked, and warm; loads and plain reads in turns.
OrderedJson bench_load(BenchRank& rank, const ModelSource& source, const LoadBench& what, const std::stop_token& stop);

}  // namespace zoetrope::cli
