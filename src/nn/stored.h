// Weights from a checkpoint folder.
#pragma once
#include "core/pool.h"
#include "nn/parameters.h"

namespace zoetrope::nn {

class Stored : public Parameters {
 public:
  // Both are borrowed. The threads of a pool share what is large.
  explicit Stored(const Checkpoint& checkpoint, Pool* pool = nullptr);

  const Listing* listing() const override { return &listing_; }
  std::string shard_of(const std::string& key) const override;
  bool only_zeros(const std::string& key) const override { return checkpoint_.only_zeros(key); }
  const Checkpoint* checkpoint() const override { return &checkpoint_; }
  void read(const std::string& key, const Shape& shape, const Slice& part, const Tensor& to) override;

 private:
  const Checkpoint& checkpoint_;
  Pool* pool_;
  Listing listing_;
};

}  // namespace zoetrope::nn
