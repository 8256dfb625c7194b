#include "nn/stored.h"

#include "base/error.h"

namespace zoetrope::nn {

Stored::Stored(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
  for (const auto& [key, entry] : checkpoint.entries()) listing_.emplace(key, entry.shape);
}

std::string Stored::shard_of(const std::string& key) const {
  return checkpoint_.files().size() > 1 ? checkpoint_.file_of(key).filename().string() : std::string();
}

void Stored::read(const std::string& key, const Shape& shape, const Slice& part, const Tensor& to) {
  const Shape& stored = checkpoint_.at(key).shape;
  require(stored == shape, key, ": is ", stored, " in ", checkpoint_.file_of(key).string(), ", asked for as ", shape);
  if (part.of(shape) == shape) return checkpoint_.read(key, to);
  const int64_t end = part.to < 0 ? shape[part.axis] : part.to;
  if (part.axis == 0) return checkpoint_.read_rows(key, part.from, end, to);
  checkpoint_.read_columns(key, part.from, end, to);
}

}  // namespace zoetrope::nn
