// Weights from a checkpoint folder.
#pragma once
#include "io/checkpoint.h"
#include "nn/parameters.h"

namespace zoetrope::nn {

class Stored : public Parameters {
 public:
  explicit Stored(const Checkpoint& checkpoint);  // borrowed

  const Listing* listing() const override { return &listing_; }
  std::string shard_of(const std::string& key) const override;
  void read(const std::string& key, const Shape& shape, const Slice& part, const Tensor& to) override;

 private:
  const Checkpoint& checkpoint_;
  Listing listing_;
};

}  // namespace zoetrope::nn
