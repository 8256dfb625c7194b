#include "models/wan/refill.h"

#include <cassert>

namespace zoetrope {

WanRefill::WanRefill(Ctx& c, WanTransformer& model, nn::Parameters& parameters, const std::string& component)
    : c_(c), model_(model), loader_(model.loader(c, parameters, component)) {
  model_.load(loader_);
  loader_.check();
  thread_ = std::thread([this] { work(); });
}

WanRefill::~WanRefill() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WanRefill::passed(size_t block) {
  const Event event = c_.stream().record();
  const std::lock_guard lock(mutex_);
  assert(block == passed_.size());
  passed_.resize(block + 1, event);
  wake_.notify_all();
}

// When the forward has left a block; none: nobody waits for it any more.
std::optional<Event> WanRefill::next(size_t block) {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return stop_ || passed_.size() > block; });
  if (stop_) return std::nullopt;
  return passed_[block];
}

void WanRefill::work() try {
  c_.rank().enter_thread();
  const std::vector<size_t>& bounds = model_.declared_;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    const auto event = next(i);
    if (!event) return;
    loader_.fill(bounds[i], bounds[i + 1], *event);
  }
} catch (...) {
  error_ = std::current_exception();
}

void WanRefill::finish(const std::string& component) {
  thread_.join();
  if (error_) std::rethrow_exception(error_);
  loader_.fill(0, model_.declared_.front());
  loader_.fill(model_.declared_.back(), loader_.declared());
  model_.component_ = component;
  model_.entries_ = loader_.used();
}

}  // namespace zoetrope
