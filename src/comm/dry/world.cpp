#include "comm/dry/world.h"

#include <algorithm>
#include <numeric>

namespace zoetrope {
namespace {

class DryComm final : public Comm {
 public:
  DryComm(std::string axis, int rank, std::vector<int> members, Session& session)
      : Comm(std::move(axis), rank, std::move(members), session) {}

  std::unique_ptr<Comm> split(const std::string& axis, const std::vector<int>& group) override {
    std::vector<int> world = world_ranks(group);
    if (group.empty()) return nullptr;
    const auto place = std::ranges::find(group, rank()) - group.begin();
    return std::make_unique<DryComm>(axis, static_cast<int>(place), std::move(world), session());
  }
  void abort(const Cause&) noexcept override {}
  bool capturable() const override { return true; }

 private:
  void carry_out(Stream&, const Call&) override {}
};

}  // namespace

DryWorld::DryWorld(int rank, int ranks) : rank_(rank), ranks_(ranks) {
  require(ranks >= 1 && rank >= 0 && rank < ranks, "dry world: rank ", rank, " of ", ranks);
  session_.log = &log_;
}

std::unique_ptr<Comm> DryWorld::comm() {
  std::vector<int> members(static_cast<size_t>(ranks_));
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<DryComm>("world", rank_, std::move(members), session_);
}

}  // namespace zoetrope
