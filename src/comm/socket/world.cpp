#include "comm/socket/world.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "comm/message.h"
#include "comm/socket/links.h"

namespace zoetrope {

struct SocketWorld::State {
  Launch launch;
  Session session;
  std::unique_ptr<StoreServer> server;  // on rank 0
  std::unique_ptr<Store> store;
  std::unique_ptr<Control> control;

  // A rank that cannot join frees the others, who may wait for it.
  template <class F>
  auto joining(F body) try {
    return body();
  } catch (...) {
    if (control->wait_for_cause(Waits::Limit::zero())) control->throw_cause();
    control->abort(current_cause(launch.rank));
    throw;
  }
};

namespace {

// What is left to send to and to receive from one peer.
struct Queue {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  size_t sent = 0, received = 0;  // messages done
  int64_t out_done = 0, in_done = 0;

  bool sending() const { return sent < out.size(); }
  bool receiving() const { return received < in.size(); }
};

class SocketComm final : public MessageComm {
 public:
  SocketComm(SocketWorld::State& state, std::string axis, std::string id, int rank, std::vector<int> members,
             std::vector<Fd> links)
      : MessageComm(std::move(axis), rank, std::move(members), state.session),
        state_(state),
        id_(std::move(id)),
        links_(std::move(links)) {}

  std::unique_ptr<Comm> split(const std::string& axis, const std::vector<int>& group) override;
  void abort(const Cause& cause) noexcept override { state_.control->abort(cause); }
  bool capturable() const override { return false; }

 private:
  void transfer(std::span<const Outgoing> out, std::span<const Incoming> in, const Call& call) override;
  bool advance(int peer, Queue& queue);
  void wait(const std::vector<Queue>& queues, const Call& call, Deadline deadline);
  [[noreturn]] void lost(int peer);

  SocketWorld::State& state_;
  std::string id_;
  std::vector<Fd> links_;  // by rank of this communicator
  int splits_ = 0;
};

std::unique_ptr<Comm> SocketComm::split(const std::string& axis, const std::vector<int>& group) {
  const std::vector<int> world = world_ranks(group);
  const std::string id = cat(id_, "/", axis, ".", ++splits_);
  std::string note = "group";
  for (const int rank : world) note += cat(" ", rank);
  const Waits::Limit limit = waits().limit(Wait::bootstrap);
  return state_.joining([&]() -> std::unique_ptr<Comm> {
    if (group.empty()) {
      publish(*state_.store, state_.launch, id, "0", "", deadline_of(limit));
      return nullptr;
    }
    const auto place = std::ranges::find(group, rank()) - group.begin();
    return std::make_unique<SocketComm>(state_, axis, id, static_cast<int>(place), world,
                                        link(*state_.store, state_.launch, id, world, note, limit));
  });
}

// Sends and receives as much as goes without waiting; true if anything is left.
bool SocketComm::advance(int peer, Queue& q) {
  const Fd& fd = links_[static_cast<size_t>(peer)];
  while (q.sending()) {
    const Outgoing& message = q.out[q.sent];
    const int64_t left = message.bytes - q.out_done;
    const ssize_t n =
        left ? send_some(fd, static_cast<const std::byte*>(message.data) + q.out_done, static_cast<size_t>(left)) : 0;
    if (n < 0) lost(peer);
    q.out_done += n;
    if (n < left) break;
    ++q.sent, q.out_done = 0;
  }
  while (q.receiving()) {
    const Incoming& message = q.in[q.received];
    const int64_t left = message.bytes - q.in_done;
    const ssize_t n =
        left ? receive_some(fd, static_cast<std::byte*>(message.data) + q.in_done, static_cast<size_t>(left)) : 0;
    if (n < 0) lost(peer);
    q.in_done += n;
    if (n < left) break;
    ++q.received, q.in_done = 0;
  }
  return q.sending() || q.receiving();
}

void SocketComm::transfer(std::span<const Outgoing> out, std::span<const Incoming> in, const Call& call) {
  std::vector<Queue> queues(static_cast<size_t>(size()));
  for (const Outgoing& message : out) queues[static_cast<size_t>(message.peer)].out.push_back(message);
  for (const Incoming& message : in) queues[static_cast<size_t>(message.peer)].in.push_back(message);
  const Deadline deadline = deadline_of(call.limit);
  for (;;) {
    if (state_.control->cause()) state_.control->throw_cause();
    bool left = false;
    for (int p = 0; p < size(); ++p) left |= p != rank() && advance(p, queues[static_cast<size_t>(p)]);
    if (!left) return;
    wait(queues, call, deadline);
  }
}

void SocketComm::wait(const std::vector<Queue>& queues, const Call& call, Deadline deadline) {
  std::vector<pollfd> waits{{state_.control->wake().get(), POLLIN, 0}};
  std::vector<int> missing;
  for (int p = 0; p < size(); ++p) {
    const Queue& q = queues[static_cast<size_t>(p)];
    if (!q.sending() && !q.receiving()) continue;
    waits.push_back({links_[static_cast<size_t>(p)].get(),
                     static_cast<short>((q.sending() ? POLLOUT : 0) | (q.receiving() ? POLLIN : 0)), 0});
    missing.push_back(members()[static_cast<size_t>(p)]);
  }
  const int ready = poll(waits.data(), waits.size(), poll_ms(deadline));
  if (ready < 0 && errno != EINTR) fail(Code::comm, "poll: ", std::strerror(errno));
  if (ready != 0 || !deadline.passed()) return;
  abort({-1, Code::comm, stall(axis(), call, missing)});
  state_.control->throw_cause();
}

// The watching thread hears why, as a rule; a peer that left in peace should not have been needed any more.
void SocketComm::lost(int peer) {
  const int who = members()[static_cast<size_t>(peer)];
  if (!state_.control->wait_for_cause(std::chrono::seconds(1)))
    abort({who, Code::comm,
           state_.control->has_left(who) ? "it has left while others still wait for it" : "its connection broke"});
  state_.control->throw_cause();
}

}  // namespace

SocketWorld::SocketWorld(const Launch& launch, const Waits& waits)
    : state_(std::make_unique<State>(State{launch, Session{waits, nullptr}, nullptr, nullptr, nullptr})) {
  const Waits::Limit limit = waits.limit(Wait::bootstrap);
  if (launch.rank == 0) state_->server = std::make_unique<StoreServer>(launch);
  const Deadline deadline = deadline_of(limit);
  state_->store = std::make_unique<Store>(launch, deadline);
  std::vector<int> all(static_cast<size_t>(launch.world));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Fd> links;
  try {
    links = link(*state_->store, launch, "control", all, "world", limit);
  } catch (...) {
    if (!deadline.passed()) state_->store->drop();  // nothing else tells the others; after it they give up, too
    throw;
  }
  state_->control = std::make_unique<Control>(std::move(links), launch.rank, [this] { aborted(); });
  state_->store->wake_by(state_->control->wake());
}

SocketWorld::~SocketWorld() {
  const bool in_peace = !cause();
  state_->control.reset();
  state_->store.reset();
  if (state_->server && in_peace)
    state_->server->finish(Deadline::in(std::chrono::seconds(5)));  // others may split yet
}

int SocketWorld::rank() const { return state_->launch.rank; }
int SocketWorld::size() const { return state_->launch.world; }

std::unique_ptr<Comm> SocketWorld::comm(int) {
  std::vector<int> all(static_cast<size_t>(state_->launch.world));
  std::iota(all.begin(), all.end(), 0);
  auto links = state_->joining([&] {
    return link(*state_->store, state_->launch, "world", all, "world", state_->session.waits.limit(Wait::bootstrap));
  });
  return std::make_unique<SocketComm>(*state_, "world", "world", state_->launch.rank, all, std::move(links));
}

Session& SocketWorld::session(int) { return state_->session; }
void SocketWorld::abort(const Cause& cause) noexcept { state_->control->abort(cause); }
std::optional<Cause> SocketWorld::cause() const { return state_->control->cause(); }

}  // namespace zoetrope
