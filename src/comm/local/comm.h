// The communicator of one rank thread. Ranks on one GPU: a rank waits for what it launched before it meets the others
// and after it has copied from them, so nothing here can be captured. Sums are made on the host, of the same bits.
#pragma once
#include "comm/local/group.h"

namespace zoetrope {

class LocalComm final : public Comm {
 public:
  LocalComm(LocalWorld::State& state, LocalGroup& group, int rank, Session& session);
  ~LocalComm() override;

  std::unique_ptr<Comm> split(const std::string& axis, const std::vector<int>& group) override;
  void abort(const Cause& cause) noexcept override;
  bool capturable() const override { return false; }

  void restart() { issued_ = carried_out_ = 0, busy_ = false; }  // recover: no call is under way

 private:
  using Lock = std::unique_lock<std::mutex>;
  class Reading;  // while it lives, the lock is open and this rank may be reading its peers' buffers

  void carry_out(Stream& stream, const Call& call) override;
  void begin(Lock& lock, const Call& call);  // posts the call and meets all others in the same one
  void meet(Lock& lock, const Call& call);   // takes a step and waits for all to have taken it
  void check_agreement();
  [[noreturn]] void leave(Lock& lock);
  [[noreturn]] void fail_all(Lock& lock, const std::string& text);

  void move(Stream& stream, const Call& call);
  void sum(Stream& stream, const Call& call);
  void spread_sums(Stream& stream, const Call& call);
  const Call& peer(int rank) const { return group_.calls[static_cast<size_t>(rank)]; }

  LocalWorld::State& state_;
  LocalGroup& group_;
  int64_t carried_out_ = 0;
  bool busy_ = false;
};

}  // namespace zoetrope
