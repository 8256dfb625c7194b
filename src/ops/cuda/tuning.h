// Tables of plans that were measured: for one GPU and one version of each library, which algorithm a product takes and
// which engine a convolution. Written by `zoetrope tune`, read here; the same file in a build without CUDA.
//
// A table can only make things faster: it names plans out of those that give the same bits (products.h, dnn.h), and one
// that the library does not take, or that is not of that kind, is left out with a warning.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace zoetrope::cuda {

// y[m, n] = x[m, k] w[n, k]^T. Good for other m, too: the nearest is taken.
struct ProductPlan {
  int64_t m = 0, n = 0, k = 0;
  DType in = DType::bf16, out = DType::bf16;
  std::string epilogue;               // none, bias, gelu, gelu_bias
  int64_t alignment = 1;              // bytes, of every address and row
  std::array<uint64_t, 8> code = {};  // the library's own words, which only this version reads
  std::string plan;                   // what they mean
  double us = 0, first_us = 0;        // measured: this, and what the library offers first
};

struct ConvolutionPlan {
  std::string kind;                           // channels, kernel, types; of a row: for all kinds that begin like this
  int64_t frames = 0, rows = 0, columns = 0;  // of the input; good for others, too
  std::string plan;                           // cuDNN's name of it
  double us = 0, first_us = 0;
};

struct TuningTable {
  std::string device, cublas, cudnn;  // "NVIDIA H200", "13.1.1", "9.19.0"
  std::vector<ProductPlan> products;
  std::vector<ConvolutionPlan> convolutions;

  // Error(invalid) in one line where the text is no table, or was changed since it was written.
  static TuningTable parse(std::string_view json, std::string_view where);
  std::string text() const;
  std::string hash() const;  // of all that it says, 64 hexadecimal digits

  const ProductPlan* find(const ProductPlan& like) const;  // within a factor of 1.5 of its m, not less aligned; or null
  std::vector<const ConvolutionPlan*> all(const ConvolutionPlan& like) const;  // of its kind, nearest picture first
};

// Rows for every GPU and version, behind those of a table or where there is none. They also say which of two sets of
// bits their convolutions have, with a table and without.
const TuningTable& untuned();

// "nvidia-h200-cublas13.1.1-cudnn9.19.0": the file of the table that belongs to them, without ".json".
std::string tuning_name(std::string_view device, std::string_view cublas, std::string_view cudnn);

// What a back end's choices go by.
struct Tuning {
  std::optional<TuningTable> table;
  bool measuring = false;  // every new plan is chosen by the clock and written down in `found`
  TuningTable found;
  std::vector<std::string> warnings;  // of plans in the table that could not be taken
};

}  // namespace zoetrope::cuda
