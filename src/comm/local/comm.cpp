#include "comm/local/comm.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace zoetrope {
namespace {

// [begin, end) of the elements that rank r of P adds up.
std::pair<int64_t, int64_t> share(int64_t n, int rank, int ranks) { return {n * rank / ranks, n * (rank + 1) / ranks}; }

void copy_bytes(Stream& stream, void* to, const void* from, int64_t bytes) {
  if (to != from && bytes > 0) stream.copy(from, to, static_cast<size_t>(bytes));
}

// What was only launched is done. A stream that runs its jobs in a thread of its own is here itself.
void finish(Stream& stream) {
  if (!stream.on_host()) stream.sync();
}

std::byte* at(const Tensor& x, int64_t byte) { return static_cast<std::byte*>(x.raw()) + byte; }

}  // namespace

class LocalComm::Reading {
 public:
  Reading(LocalGroup& group, Lock& lock) : group_(group), lock_(lock) {
    ++group_.reading;
    lock_.unlock();
  }
  ~Reading() {
    lock_.lock();
    if (--group_.reading == 0) group_.changed.notify_all();
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  LocalGroup& group_;
  Lock& lock_;
};

LocalComm::LocalComm(LocalWorld::State& state, LocalGroup& group, int rank, Session& session)
    : Comm(group.axis, rank, group.members, session), state_(state), group_(group) {
  const std::lock_guard lock(state_.mutex);
  require(!group_.comms[static_cast<size_t>(rank)], "world: rank ", rank, " has its communicator already");
  group_.comms[static_cast<size_t>(rank)] = this;
}

LocalComm::~LocalComm() {
  const std::lock_guard lock(state_.mutex);
  group_.comms[static_cast<size_t>(rank())] = nullptr;
}

void LocalComm::abort(const Cause& cause) noexcept {
  const std::lock_guard lock(state_.mutex);
  state_.abort(cause);
}

// Nobody may still be reading this rank's buffers when it unwinds: copies are short, and after an abort none begins.
void LocalComm::leave(Lock& lock) {
  group_.changed.wait(lock, [&] { return group_.reading == 0; });
  throw Error(Code::comm, state_.cause->words());
}

void LocalComm::fail_all(Lock& lock, const std::string& text) {
  state_.abort({-1, Code::comm, text});
  leave(lock);
}

void LocalComm::meet(Lock& lock, const Call& call) {
  const uint64_t mine = ++group_.steps[static_cast<size_t>(rank())];
  group_.changed.notify_all();
  const auto over = [&] { return state_.cause || group_.all_at(mine); };
  const Deadline deadline = deadline_of(call.limit);
  if (deadline.endless())
    group_.changed.wait(lock, over);
  else if (!group_.changed.wait_until(lock, deadline.at(), over))
    fail_all(lock, stall(axis(), call, group_.missing(mine)));
  if (state_.cause) leave(lock);
}

// The last one to arrive compares, before it lets anybody go on.
void LocalComm::begin(Lock& lock, const Call& call) {
  if (state_.cause) leave(lock);
  group_.calls[static_cast<size_t>(rank())] = call;
  if (group_.only_missing(rank())) check_agreement();
  if (state_.cause) leave(lock);
  meet(lock, call);
}

void LocalComm::check_agreement() {
  const Call::Agreed first = peer(0).agreed();
  for (int r = 1; r < size(); ++r)
    if (const Call::Agreed other = peer(r).agreed(); other != first)
      state_.abort(
          {-1, Code::comm, disagreement(axis(), members()[static_cast<size_t>(r)], other, members()[0], first)});
}

void LocalComm::carry_out(Stream& stream, const Call& call) {
  finish(stream);
  Lock lock(state_.mutex);
  if (!state_.cause && (busy_ || call.number != carried_out_ + 1))
    fail_all(lock, cat("rank ", world_rank(), ": ", name(call.verb), " ", call.number, " on axis ", axis(),
                       " began while call ", carried_out_ + 1,
                       " was not done: two streams share a communicator without waiting for each other"));
  busy_ = true;
  begin(lock, call);
  const auto unlocked = [&](auto&& work) {
    const Reading reading(group_, lock);
    work();
    finish(stream);
  };
  if (call.verb == Verb::all_reduce) {
    unlocked([&] { sum(stream, call); });
    meet(lock, call);
    unlocked([&] { spread_sums(stream, call); });
  } else if (call.verb != Verb::barrier) {
    unlocked([&] { move(stream, call); });
  }
  if (call.verb != Verb::barrier) meet(lock, call);
  ++carried_out_, busy_ = false;
}

// Everything but all_reduce: read what is meant for this rank where the peers have it.
void LocalComm::move(Stream& stream, const Call& call) {
  const auto copy = [&](void* to, const void* from, int64_t n) { copy_bytes(stream, to, from, n); };
  const int64_t bytes = call.in.prev.defined() ? call.in.prev.bytes() : 0;
  const int before = (rank() + size() - 1) % size(), after = (rank() + 1) % size();
  switch (call.verb) {
    case Verb::all_to_all:
      for (int i = 0; i < size(); ++i) {
        const int p = (rank() + i) % size();
        const int64_t part = bytes / size();
        copy(at(call.out.prev, p * part), at(peer(p).in.prev, rank() * part), part);
      }
      break;
    case Verb::all_gather:
    case Verb::gather:
      if (!call.out.prev.defined()) break;
      for (int i = 0; i < size(); ++i) {
        const int p = (rank() + i) % size();
        copy(at(call.out.prev, p * bytes), peer(p).in.prev.raw(), bytes);
      }
      break;
    case Verb::broadcast:
      copy(call.in.prev.raw(), peer(call.root).in.prev.raw(), bytes);
      break;
    case Verb::exchange:
      if (call.out.prev.defined()) copy(call.out.prev.raw(), peer(before).in.next.raw(), call.out.prev.bytes());
      if (call.out.next.defined()) copy(call.out.next.raw(), peer(after).in.prev.raw(), call.out.next.bytes());
      break;
    case Verb::all_reduce:
    case Verb::barrier:
    case Verb::split:
      break;
  }
}

// In place: nobody else reads this rank's share of its own x, and its other elements are not written before the step.
void LocalComm::sum(Stream& stream, const Call& call) {
  const auto [begin, end] = share(call.in.prev.size(), rank(), size());
  constexpr int64_t block = 4096;  // partial sums stay in cache while all ranks' rows pass
  std::array<float, block> total, fetched;
  for (int64_t from = begin; from < end; from += block) {
    const int64_t n = std::min(block, end - from);
    const auto bytes = static_cast<size_t>(n) * sizeof(float);
    for (int p = 0; p < size(); ++p) {
      const float* x = peer(p).in.prev.data<float>() + from;
      if (!stream.on_host()) stream.download(x, fetched.data(), bytes), x = fetched.data();
      if (p == 0)
        std::copy_n(x, n, total.begin());
      else
        for (int64_t i = 0; i < n; ++i) total[static_cast<size_t>(i)] += x[i];
    }
    float* to = call.in.prev.data<float>() + from;
    if (stream.on_host())
      std::copy_n(total.begin(), n, to);
    else
      stream.upload(total.data(), to, bytes);
  }
}

void LocalComm::spread_sums(Stream& stream, const Call& call) {
  for (int i = 1; i < size(); ++i) {
    const int p = (rank() + i) % size();
    const auto [begin, end] = share(call.in.prev.size(), p, size());
    copy_bytes(stream, call.in.prev.data<float>() + begin, peer(p).in.prev.data<float>() + begin,
               (end - begin) * bytes_of(DType::f32));
  }
}

std::unique_ptr<Comm> LocalComm::split(const std::string& axis, const std::vector<int>& group) {
  const std::vector<int> world = world_ranks(group);
  const Call call{
      .verb = Verb::split, .number = issued_, .wait = Wait::bootstrap, .limit = waits().limit(Wait::bootstrap)};
  Lock lock(state_.mutex);
  group_.splits[static_cast<size_t>(rank())] = group;
  begin(lock, call);
  for (const int other : group)
    if (group_.splits[static_cast<size_t>(other)] != group)
      fail_all(lock, cat("axis ", this->axis(), ": split into ", axis, ": rank ", world_rank(), " and rank ",
                         members()[static_cast<size_t>(other)], " name different groups"));
  LocalGroup* made = nullptr;
  if (!group.empty()) {
    LocalGroup*& child = group_.children[group.front()];
    if (!child) child = state_.groups.emplace_back(std::make_unique<LocalGroup>(axis, world)).get();
    made = child;
  }
  meet(lock, call);
  group_.children.clear();
  meet(lock, call);
  lock.unlock();
  if (!made) return nullptr;
  const auto place = std::ranges::find(group, rank()) - group.begin();
  return std::make_unique<LocalComm>(state_, *made, static_cast<int>(place), session());
}

}  // namespace zoetrope
