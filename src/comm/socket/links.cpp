#include "comm/socket/links.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace zoetrope {
namespace {

constexpr const char* greeting = "zoetrope rank 1";
constexpr size_t most_hello = 1024, most_words = 8192;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::string key_of(const std::string& id, int rank) { return cat(id, "#", rank); }

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += cat(text.empty() ? "" : ", ", rank);
  return cat(ranks.size() == 1 ? "rank " : "ranks ", text);
}

struct Address {
  std::string host;
  uint16_t port;
};

std::string not_come(const std::string& id, const std::vector<int>& ranks, Waits::Limit limit) {
  return cat(id, ": ", ranks_text(ranks), " did not come within ", std::chrono::duration<double>(limit).count(), " s");
}

// Where rank `peer` listens for this group; checks that it means the same group.
Address find(Store& store, const std::string& id, int rank, int peer, const std::string& note, Deadline deadline,
             Waits::Limit limit) {
  const auto found = store.get(key_of(id, peer), deadline);
  if (!found) fail(Code::comm, not_come(id, {peer}, limit));
  const auto fields = unpack(*found, 3);  // host, port, note
  if (fields[2] != note)
    fail(Code::comm, id, ": rank ", rank, " is in ", note, " but rank ", peer, " in ",
         fields[2].empty() ? "none" : fields[2]);
  return {fields[0], static_cast<uint16_t>(std::atoi(fields[1].c_str()))};
}

// Connects and says who we are. A rank listens when it publishes its address: where nobody does now, it is gone.
Fd reach(Store& store, const Launch& launch, const std::string& id, int peer, const Address& at) {
  try {
    Fd fd = connect_to(at.host, at.port, Deadline::in(milliseconds(300)));
    send_frame(fd, pack({greeting, launch.token, id, std::to_string(launch.rank)}), Deadline::in(seconds(1)));
    return fd;
  } catch (const Error& error) {
    const std::string lost = store.why_lost();
    fail(Code::comm, id, ": ", lost.empty() ? cat("rank ", peer, " is gone: ", error.what()) : lost);
  }
}

// Which of `expected` this connection is, or -1: a stranger, who gets no second chance and little time.
int identify(const Fd& fd, const Launch& launch, const std::string& id, const std::vector<int>& expected) {
  try {
    const auto fields = unpack(receive_frame(fd, most_hello, Deadline::in(seconds(1))), 4);
    const int rank = std::atoi(fields[3].c_str());
    const bool known = fields[0] == greeting && same_secret(fields[1], launch.token) && fields[2] == id;
    return known && std::ranges::count(expected, rank) ? rank : -1;
  } catch (const Error&) {
    return -1;
  }
}

}  // namespace

void publish(Store& store, const Launch& launch, const std::string& id, const std::string& port,
             const std::string& note, Deadline deadline) {
  store.set(key_of(id, launch.rank), pack({store.local_address(), port, note}), deadline);
}

std::vector<Fd> link(Store& store, const Launch& launch, const std::string& id, const std::vector<int>& peers,
                     const std::string& note, Waits::Limit limit) {
  const Deadline deadline = deadline_of(limit);
  const Fd listener = listen_at(store.local_address(), 0);
  publish(store, launch, id, std::to_string(port_of(listener)), note, deadline);
  std::vector<Fd> links(peers.size());
  std::vector<int> expected;  // higher ranks come to us, we go to the lower ones
  for (size_t i = 0; i < peers.size(); ++i) {
    if (peers[i] > launch.rank) expected.push_back(peers[i]);
    if (peers[i] >= launch.rank) continue;
    const Address at = find(store, id, launch.rank, peers[i], note, deadline, limit);
    links[i] = reach(store, launch, id, peers[i], at);
  }
  for (const int peer : expected) find(store, id, launch.rank, peer, note, deadline, limit);
  while (!expected.empty()) {
    if (!wait_for(listener, POLLIN, deadline, store.wake())) fail(Code::comm, not_come(id, expected, limit));
    Fd fd = accept_from(listener);
    const int rank = fd ? identify(fd, launch, id, expected) : -1;
    if (rank < 0) continue;
    std::erase(expected, rank);
    links[static_cast<size_t>(std::ranges::find(peers, rank) - peers.begin())] = std::move(fd);
  }
  return links;
}

Control::Control(std::vector<Fd> links, int rank, std::function<void()> aborted)
    : links_(std::move(links)),
      rank_(rank),
      aborted_(std::move(aborted)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { watch(); }) {}

Control::~Control() {
  if (!cause()) tell_all(pack({"bye", "", "", ""}));
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void Control::tell_all(const std::string& frame) noexcept {
  const std::lock_guard lock(sending_);
  for (const Fd& fd : links_) try {
      if (fd) send_frame(fd, frame, Deadline::in(milliseconds(100)));
    } catch (const std::exception&) {  // that peer is gone already
    }
}

void Control::abort(const Cause& cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (cause_) return;
    cause_ = cause;
    cause_->text.resize(std::min(cause_->text.size(), most_words / 2));
  }
  aborted_();
  eventfd_write(wake_.get(), 1);
  tell_all(pack({"abort", std::to_string(cause.rank), std::to_string(static_cast<int>(cause.code)),
                 std::string_view(cause.text).substr(0, most_words / 2)}));
}

std::optional<Cause> Control::cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

bool Control::has_left(int rank) const {
  const std::lock_guard lock(mutex_);
  return left_.contains(rank);
}

void Control::throw_cause() const { throw Error(Code::comm, cause()->words()); }

bool Control::wait_for_cause(Waits::Limit limit) const { return wait_for(wake_, POLLIN, deadline_of(limit)); }

void Control::watch() {
  for (;;) {
    std::vector<pollfd> waits{{stop_.get(), POLLIN, 0}};
    std::vector<int> peers{-1};
    for (size_t p = 0; p < links_.size(); ++p) {
      if (!links_[p] || closed_.contains(static_cast<int>(p))) continue;
      waits.push_back({links_[p].get(), POLLIN, 0});
      peers.push_back(static_cast<int>(p));
    }
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    if (waits[0].revents) return;
    for (size_t i = 1; i < waits.size(); ++i)
      if (waits[i].revents) read_from(peers[i]);
  }
}

void Control::read_from(int peer) {
  try {
    const std::string frame = receive_frame(links_[static_cast<size_t>(peer)], most_words, Deadline::in(seconds(1)));
    const auto fields = unpack(frame, 4);  // what, rank, code, text
    if (fields[0] == "abort") {
      const int code = std::clamp(std::atoi(fields[2].c_str()), 0, static_cast<int>(Code::cancelled));
      abort({std::atoi(fields[1].c_str()), static_cast<Code>(code), fields[3]});
    }
    const std::lock_guard lock(mutex_);
    left_.insert(peer);
  } catch (const Error&) {
    closed_.insert(peer);
    if (!has_left(peer)) abort({peer, Code::comm, "its process is gone, without a word"});
  }
}

}  // namespace zoetrope
