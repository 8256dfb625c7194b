#include "comm/store.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace zoetrope {
namespace {

constexpr const char* greeting = "zoetrope store 1";
constexpr size_t most_hello = 1024, most_frame = Store::most_key + Store::most_value + 64;
constexpr size_t most_strangers = 64;
constexpr auto hello_time = std::chrono::seconds(5);

struct Client {
  Fd fd;
  std::string in, out;
  std::string waiting;  // key of the get that is not answered yet
  int rank = -1;        // -1: a stranger
  bool gone = false, leaving = false;
  Deadline hello = Deadline::in(hello_time);
};

void answer(Client& client, std::string_view status, std::string_view value) {
  const std::string body = pack({status, value});
  for (int shift = 0; shift < 32; shift += 8) client.out += static_cast<char>(body.size() >> shift & 0xFF);
  client.out += body;
}

}  // namespace

struct StoreServer::State {
  explicit State(const Launch& launch) : launch(launch), listener(listen_at(launch.host, launch.port)) {}

  void serve();
  void accept_all();
  void receive(Client& client);
  void handle(Client& client, std::string_view body);
  void welcome(Client& client, std::string_view body);
  void lose(Client& client);
  void answer_waiting(const std::string& key, std::string_view status, std::string_view value);
  void tell_members();

  const Launch launch;
  Fd listener, stop{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::list<Client> clients;
  std::map<std::string, std::string> values;
  std::string lost;  // why no get can be answered any more
  std::mutex mutex;  // guards the next two, the thread's news for finish()
  std::condition_variable changed;
  size_t members = 0;
  std::thread thread;
};

StoreServer::StoreServer(const Launch& launch) : state_(std::make_unique<State>(launch)) {
  state_->thread = std::thread([state = state_.get()] { state->serve(); });
}

StoreServer::~StoreServer() {
  finish(Deadline::in(std::chrono::seconds(1)));
  eventfd_write(state_->stop.get(), 1);
  state_->thread.join();
}

uint16_t StoreServer::port() const { return port_of(state_->listener); }

void StoreServer::State::serve() {
  std::vector<pollfd> waits;
  for (;;) {
    const auto strangers = static_cast<size_t>(std::ranges::count(clients, -1, &Client::rank));
    waits.assign({{stop.get(), POLLIN, 0}, {listener.get(), strangers < most_strangers ? short{POLLIN} : short{0}, 0}});
    for (const Client& client : clients)
      waits.push_back({client.fd.get(), static_cast<short>(POLLIN | (client.out.empty() ? 0 : POLLOUT)), 0});
    if (poll(waits.data(), waits.size(), strangers ? 200 : -1) < 0 && errno != EINTR) return;
    if (waits[0].revents) return;
    for (Client& client : clients) {
      try {
        receive(client);
      } catch (const Error&) {  // not one of ours, or broken
        client.gone = true;
      }
      const ssize_t sent = client.out.empty() ? 0 : send_some(client.fd, client.out.data(), client.out.size());
      client.out.erase(0, static_cast<size_t>(std::max<ssize_t>(sent, 0)));
      client.gone |= sent < 0 || (client.rank < 0 && client.hello.passed()) || (client.leaving && client.out.empty());
    }
    for (Client& client : clients)
      if (client.gone) lose(client);
    clients.remove_if([](const Client& client) { return client.gone; });
    tell_members();
    accept_all();
  }
}

void StoreServer::State::tell_members() {
  const std::lock_guard lock(mutex);
  members = static_cast<size_t>(std::ranges::count_if(clients, [](const Client& client) { return client.rank >= 0; }));
  changed.notify_all();
}

void StoreServer::finish(Deadline deadline) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_until(lock, deadline.at(), [&] { return state_->members == 0; });
}

void StoreServer::State::accept_all() {
  const auto strangers = std::ranges::count(clients, -1, &Client::rank);
  for (auto n = static_cast<size_t>(strangers); n < most_strangers; ++n) {
    Fd fd = accept_from(listener);
    if (!fd) return;
    clients.emplace_back().fd = std::move(fd);
  }
}

void StoreServer::State::receive(Client& client) {
  char buffer[4096];
  ssize_t got = 0;
  while (client.in.size() <= most_frame && (got = receive_some(client.fd, buffer, sizeof buffer)) > 0)
    client.in.append(buffer, static_cast<size_t>(got));
  client.gone |= got < 0;
  while (client.in.size() >= 4 && !client.leaving) {
    size_t size = 0;
    for (size_t i = 4; i-- > 0;) size = size << 8 | static_cast<unsigned char>(client.in[i]);
    if (size > (client.rank < 0 ? most_hello : most_frame)) fail(Code::comm, "store: a frame of ", size, " bytes");
    if (client.in.size() < 4 + size) return;
    handle(client, std::string_view(client.in).substr(4, size));
    client.in.erase(0, 4 + size);
  }
}

void StoreServer::State::handle(Client& client, std::string_view body) {
  if (client.rank < 0) return welcome(client, body);
  const auto fields = unpack(body, 3);  // verb, key, value
  const std::string &verb = fields[0], &key = fields[1];
  if (verb == "bye") {
    client.leaving = true;
  } else if (key.size() > Store::most_key || fields[2].size() > Store::most_value) {
    answer(client, "no", "key or value too long");
  } else if (verb == "set") {
    const bool room = values.size() < Store::most_keys || values.contains(key);
    if (room) values[key] = fields[2];
    answer(client, room ? "ok" : "no", room ? "" : "the store is full");
    if (room) answer_waiting(key, "ok", fields[2]);
  } else if (verb == "lost") {
    answer(client, "ok", lost);
  } else if (verb == "get" && values.contains(key)) {
    answer(client, "ok", values[key]);
  } else if (verb == "get" && !lost.empty()) {
    answer(client, "no", lost);
  } else if (verb == "get") {
    client.waiting = key;
  } else {
    client.gone = true;
  }
}

void StoreServer::State::welcome(Client& client, std::string_view body) {
  const auto fields = unpack(body, 4);  // greeting, token, rank, world
  const auto refuse = [&](const std::string& why) {
    answer(client, "no", why);
    client.leaving = true;
  };
  if (fields[0] != greeting) return refuse("not the same version of zoetrope");
  if (!same_secret(fields[1], launch.token)) return refuse("the token is not that of rank 0");
  const int rank = std::atoi(fields[2].c_str());
  if (fields[3] != std::to_string(launch.world))
    return refuse(cat("rank ", rank, " was started for ", fields[3].substr(0, 8), " ranks, rank 0 for ", launch.world));
  if (rank < 0 || rank >= launch.world) return refuse(cat("there is no rank ", rank, " among ", launch.world));
  if (std::ranges::count(clients, rank, &Client::rank)) return refuse(cat("there are two of rank ", rank));
  client.rank = rank;
  answer(client, "ok", "");
}

void StoreServer::State::lose(Client& client) {
  if (client.rank < 0 || client.leaving || !lost.empty()) return;
  lost = cat("rank ", client.rank, " died while the ranks were joining");
  for (Client& other : clients)
    if (!other.waiting.empty() && !other.gone) answer(other, "no", lost), other.waiting.clear();
}

void StoreServer::State::answer_waiting(const std::string& key, std::string_view status, std::string_view value) {
  for (Client& client : clients)
    if (client.waiting == key && !client.gone) answer(client, status, value), client.waiting.clear();
}

Store::Store(const Launch& launch, Deadline deadline) : connection_(connect_to(launch.host, launch.port, deadline)) {
  try {
    send_frame(connection_, pack({greeting, launch.token, std::to_string(launch.rank), std::to_string(launch.world)}),
               deadline);
    const auto reply = unpack(receive_frame(connection_, most_frame, deadline), 2);
    if (reply[0] != "ok") fail(Code::comm, "refused: ", reply[1]);
  } catch (const Error& error) {
    fail(Code::comm, "store at ", launch.host, ":", launch.port, ": ", error.what());
  }
}

Store::~Store() {
  try {
    if (connection_) send_frame(connection_, pack({"bye", "", ""}), Deadline::in(std::chrono::milliseconds(100)));
  } catch (const Error&) {  // the server is gone already
  }
}

std::string Store::reply() {
  std::vector<std::string> fields;
  try {
    fields = unpack(receive_frame(connection_, most_frame, Deadline::in(hello_time)), 2);
  } catch (const Error& error) {
    fail(Code::comm, "store: rank 0, which serves it, is gone: ", error.what());
  }
  if (fields[0] != "ok") fail(Code::comm, "store: ", fields[1]);
  return fields[1];
}

void Store::set(const std::string& key, const std::string& value, Deadline deadline) {
  require(key.size() <= most_key && value.size() <= most_value, "store: key ", key.substr(0, 64), " or its value of ",
          value.size(), " bytes is too long");
  send_frame(connection_, pack({"set", key, value}), deadline);
  reply();
}

std::string Store::why_lost() noexcept {
  try {
    const Deadline soon = Deadline::in(std::chrono::seconds(1));
    send_frame(connection_, pack({"lost", "", ""}), soon);
    return unpack(receive_frame(connection_, most_frame, soon), 2)[1];
  } catch (const std::exception&) {
    return "";
  }
}

std::optional<std::string> Store::get(const std::string& key, Deadline deadline) {
  send_frame(connection_, pack({"get", key, ""}), deadline);
  if (!wait_for(connection_, POLLIN, deadline, wake_)) return std::nullopt;
  return reply();
}

}  // namespace zoetrope
