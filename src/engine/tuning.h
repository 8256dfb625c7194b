// The table of measured plans that a GPU's back end works with (ops/cuda/tuning.h): the one that was asked for, else
// the one that ships for this GPU and these libraries, else none.
#pragma once
#include <filesystem>
#include <string>

#include "ops/backend.h"

namespace zoetrope {

struct TuningUsed {
  std::string hash;  // of the table; empty: none, the libraries' own choices
  std::string from;  // file, or the name it ships under
};

// Error(invalid) where `file` is no table, damaged, or made for another GPU or library. A back end of the CPU has none.
TuningUsed use_tuning(Backend& backend, const std::filesystem::path& file = {});

}  // namespace zoetrope
