// The verbs over messages between pairs of ranks: for transports that cannot see each other's memory.
//
// Every call begins with a header to and from each peer, so that ranks which disagree find out before any data moves
// and nobody sends to a rank that has not come.
#pragma once
#include <atomic>
#include <span>

#include "comm/comm.h"

namespace zoetrope {

struct Outgoing {
  int peer;  // rank of the communicator
  const void* data;
  int64_t bytes;
};
struct Incoming {
  int peer;
  void* data;
  int64_t bytes;
};

class MessageComm : public Comm {
 protected:
  MessageComm(std::string axis, int rank, std::vector<int> members, Session& session)
      : Comm(std::move(axis), rank, std::move(members), session) {}

  void agree(const Call& call);  // a header to and from each peer, compared; throws like transfer

  // Moves all of it at once, in any order, but several messages between two ranks in the order listed. Throws
  // Error(comm), having aborted the group, when a peer is gone or the call's limit passes.
  virtual void transfer(std::span<const Outgoing> out, std::span<const Incoming> in, const Call& call) = 0;

 private:
  void carry_out(Stream& stream, const Call& call) final;
  void move(const Call& call);
  void reduce(const Call& call);

  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace zoetrope
