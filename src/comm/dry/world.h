// One rank of a world that does not exist: every collective is recorded, none moves anything, results keep whatever
// their memory held. Made for dry contexts, where not even that is read.
#pragma once
#include <memory>

#include "comm/comm.h"

namespace zoetrope {

class DryWorld {
 public:
  DryWorld(int rank, int ranks);

  std::unique_ptr<Comm> comm();  // of all ranks, axis "world"
  const std::vector<Record>& log() const { return log_; }
  void clear() { log_.clear(); }

 private:
  int rank_, ranks_;
  std::vector<Record> log_;
  Session session_;
};

}  // namespace zoetrope
