// Ranks as processes, on one host or several, over TCP: host memory only, simple rather than fast. Each communicator
// has a connection between every two of its ranks; a further set, watched by a thread, carries goodbyes and the first
// cause of a failure, and tells at once when a process is gone.
#pragma once
#include <memory>
#include <optional>

#include "comm/comm.h"
#include "comm/launch.h"

namespace zoetrope {

class SocketWorld {
 public:
  // Joins the others: rank 0 serves the store. Deadline: Wait::bootstrap; who has not come is named.
  explicit SocketWorld(const Launch& launch, const Waits& waits = {});
  ~SocketWorld();  // says goodbye, unless the group was aborted; rank 0 then serves the others up to 5 s more

  std::unique_ptr<Comm> comm();  // of all ranks, axis "world"; once
  Session& session();
  void abort(const Cause& cause) noexcept;
  std::optional<Cause> cause() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace zoetrope
