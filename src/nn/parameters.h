// Where a model's weights come from: a checkpoint, or seeded random numbers. Keys and shapes are those of the diffusers
// checkpoint; how a model packs and repacks them is the loader's business (nn/loader.h).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "io/checkpoint.h"

namespace zoetrope::nn {

// One tensor of a checkpoint.
struct Entry {
  std::string key;
  Shape shape;

  friend bool operator==(const Entry&, const Entry&) = default;
};

// A part of a tensor: [from, to) of the first or second axis. The default is all of it.
struct Slice {
  int axis = 0;
  int64_t from = 0, to = -1;  // -1: to the end

  friend bool operator==(const Slice&, const Slice&) = default;
  Shape of(const Shape& whole) const;  // shape of the part; Error(invalid) when it is not inside
};

using Listing = std::map<std::string, Shape>;

class Parameters {
 public:
  virtual ~Parameters() = default;
  // What there is; nullptr: anything one asks for.
  virtual const Listing* listing() const = 0;
  // The file that holds a tensor, by its name in the checkpoint's folder; empty where there is but one file, or none.
  virtual std::string shard_of(const std::string& /*key*/) const { return {}; }
  // Whether a tensor that is there holds nothing but zeros.
  virtual bool only_zeros(const std::string& /*key*/) const { return false; }
  // The checkpoint that read() reads and converts, for a device that does both better; null: there is only read().
  virtual const Checkpoint* checkpoint() const { return nullptr; }
  // Fills `to` (host memory; fp32 or bf16; as many elements as the part has) with a part of tensor `key`, whose whole
  // shape is `shape`. Rounds to nearest even. Where a device has readers they call it at the same time.
  virtual void read(const std::string& key, const Shape& shape, const Slice& part, const Tensor& to) = 0;
};

int64_t parameter_count(const std::vector<Entry>& entries);

}  // namespace zoetrope::nn
