#include "core/weights.h"

namespace zoetrope {

SharedWeights::Slice SharedWeights::get(const std::string& component, const std::string& slice, const Make& make,
                                        const Load& load) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_[{component, slice}];
  loaded_.wait(lock, [&] { return !entry.loading; });
  if (auto region = entry.region.lock()) return {std::move(region), entry.tensors};
  entry.loading = true;
  lock.unlock();
  const auto finish = [&](const Slice& result) {
    lock.lock();
    entry = {false, result.region, result.tensors};
    loaded_.notify_all();
  };
  try {
    Slice result{make(), {}};
    result.tensors = load(*result.region);
    finish(result);
    return result;
  } catch (...) {
    finish({});
    throw;
  }
}

void SharedWeights::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  for (auto it = entries_.lower_bound({from, ""}); it != entries_.end() && it->first.first == from;) {
    auto entry = entries_.extract(it++);
    entries_.erase({to, entry.key().second});
    entry.key().first = to;
    entries_.insert(std::move(entry));
  }
}

std::vector<SharedWeights::Held> SharedWeights::held() {
  const std::lock_guard lock(mutex_);
  std::vector<Held> all;
  for (const auto& [key, entry] : entries_)
    if (const auto region = entry.region.lock()) all.push_back({key.first, key.second, region->used(), entry.tensors});
  return all;
}

}  // namespace zoetrope
