// One expert's weights replaced in place by another's of the same shapes, block by block behind the last forward that
// reads them: a thread of its own writes a block as soon as that forward has left it. So only one expert has room, and
// the change from one to the other hides behind a step.
#pragma once
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "models/wan/transformer.h"

namespace zoetrope {

class WanRefill {
 public:
  // Checks names and shapes, starts the thread. `model`, `parameters` and c outlive this; nobody else reads the
  // weights. From the first passed() to a finish() that returns, the model is of no use.
  WanRefill(Ctx& c, WanTransformer& model, nn::Parameters& parameters, const std::string& component);
  ~WanRefill();  // an unfinished one stops between blocks
  WanRefill(const WanRefill&) = delete;
  WanRefill& operator=(const WanRefill&) = delete;

  void passed(size_t block);  // the forward's callback: in order, every block
  // After the forward was issued: waits for the blocks, fills what is in none. Throws what reading threw. The model is
  // then the other expert.
  void finish(const std::string& component);

 private:
  void work();
  std::optional<Event> next(size_t block);

  Ctx& c_;
  WanTransformer& model_;
  nn::Loader loader_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Event> passed_;  // of each block
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace zoetrope
