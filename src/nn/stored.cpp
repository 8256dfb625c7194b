#include "nn/stored.h"

#include <algorithm>

#include "base/error.h"

namespace zoetrope::nn {
namespace {

constexpr int64_t piece_bytes = 4 << 20;  // of a tensor, for a thread

}  // namespace

Stored::Stored(const Checkpoint& checkpoint, Pool* pool) : checkpoint_(checkpoint), pool_(pool) {
  for (const auto& [key, entry] : checkpoint.entries()) listing_.emplace(key, entry.shape);
}

std::string Stored::shard_of(const std::string& key) const {
  return checkpoint_.files().size() > 1 ? checkpoint_.file_of(key).filename().string() : std::string();
}

void Stored::read(const std::string& key, const Shape& shape, const Slice& part, const Tensor& to) {
  const Shape& stored = checkpoint_.at(key).shape;
  require(stored == shape, key, ": is ", stored, " in ", checkpoint_.file_of(key).string(), ", asked for as ", shape);
  if (shape.rank() == 0) return checkpoint_.read(key, to);
  const int64_t from = part.from, end = part.to < 0 ? shape[part.axis] : part.to;
  if (part.axis != 0) return checkpoint_.read_columns(key, from, end, to);
  if (!pool_ || to.bytes() <= piece_bytes) return checkpoint_.read_rows(key, from, end, to);
  const Tensor table = to.view(part.of(shape));
  pool_->for_each(end - from, std::max<int64_t>(1, piece_bytes * (end - from) / to.bytes()),
                  [&](int64_t a, int64_t b) { checkpoint_.read_rows(key, from + a, from + b, table.rows(a, b)); });
}

}  // namespace zoetrope::nn
