// A weight in the pieces that a device fetches (core/intake.h).
#pragma once
#include <string>
#include <vector>

#include "core/intake.h"
#include "nn/parameters.h"

namespace zoetrope::nn {

// [out, in, kernel] as stored becomes [out, kernel, in], `in_padded` apart.
struct ChannelsLast {
  int64_t in = 0, kernel = 1, in_padded = 0;
};

struct Wanted {
  std::string key;
  Shape shape;  // whole
  Slice slice;
  const ChannelsLast* channels_last = nullptr;  // null: as stored
  Tensor to;                                    // where the first element goes; fp32 or bf16
};

// Appends the pieces, in order. false, and none: a row is too long for one. Bytes are read as they are stored where the
// source has a checkpoint of a type that devices convert; else by Parameters::read, converted.
bool add_pieces(Parameters& source, const Wanted& wanted, std::vector<Piece>& pieces);

Tensor elements(const Tensor& x, int64_t from, const Shape& shape);  // of x's elements from `from` on

}  // namespace zoetrope::nn
