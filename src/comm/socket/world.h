// Ranks as processes, on one host or several, over TCP: host memory only, simple rather than fast. Each communicator
// has a connection between every two of its ranks; a further set, watched by a thread, carries goodbyes and the first
// cause of a failure, and tells at once when a process is gone.
#pragma once
#include "comm/launch.h"
#include "comm/world.h"

namespace zoetrope {

class SocketWorld final : public World {
 public:
  // Joins the others: rank 0 serves the store. Deadline: Wait::bootstrap; who has not come is named.
  explicit SocketWorld(const Launch& launch, const Waits& waits = {});
  ~SocketWorld() override;  // says goodbye, unless the group was aborted; rank 0 then serves the others up to 5 s more

  int rank() const;
  int size() const override;
  std::vector<int> here() const override { return {rank()}; }
  std::unique_ptr<Comm> comm(int rank) override;
  Session& session(int rank) override;
  void abort(const Cause& cause) noexcept override;
  std::optional<Cause> cause() const override;
  bool recover(int) override { return false; }

  std::unique_ptr<Comm> comm() { return comm(rank()); }
  Session& session() { return session(rank()); }

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace zoetrope
