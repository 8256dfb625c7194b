#include "comm/net.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"

namespace zoetrope {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string why() { return std::strerror(errno); }

Addresses look_up(const std::string& host, uint16_t port, bool listen) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error) fail(Code::comm, "address ", host, ": ", gai_strerror(error));
  return {found, freeaddrinfo};
}

Fd open_socket(const addrinfo& address) {
  return Fd(socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

// Small messages go at once; a host that vanishes is noticed within 5 s.
void tune(const Fd& fd) {
  const auto set = [&](int level, int option, int value) { setsockopt(fd.get(), level, option, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 2);
}

sockaddr_storage name_of(const Fd& fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) fail(Code::comm, "socket: ", why());
  return name;
}

// A port that nobody listens at yet may connect to itself, if the kernel happens to pick it for this end too.
bool is_itself(const Fd& fd) {
  sockaddr_storage peer{}, self = name_of(fd);
  socklen_t size = sizeof peer;
  return getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &size) == 0 && std::memcmp(&peer, &self, size) == 0;
}

bool try_connect(const Fd& fd, const addrinfo& address, Deadline deadline) {
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !wait_for(fd, POLLOUT, deadline)) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

// Moves all of [data, data + bytes) with `some`, which never blocks.
template <class Some>
void all(const Fd& fd, short events, size_t bytes, Deadline deadline, Some some) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t moved = some(done);
    if (moved < 0) fail(Code::comm, "connection: closed by the other side");
    done += static_cast<size_t>(moved);
    if (moved == 0 && !wait_for(fd, events, deadline)) fail(Code::comm, "connection: no answer in time");
  }
}

void put_u32(std::string& text, size_t value) {
  for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>(value >> shift & 0xFF);
}

size_t get_u32(const char* text) {
  size_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(text[i]);
  return value;
}

}  // namespace

Fd listen_at(const std::string& host, uint16_t port) {
  const Addresses addresses = look_up(host, port, true);
  std::string reason = "no address";
  for (const addrinfo* a = addresses.get(); a; a = a->ai_next) {
    Fd fd = open_socket(*a);
    const int on = 1;
    if (fd) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd && bind(fd.get(), a->ai_addr, a->ai_addrlen) == 0 && listen(fd.get(), 128) == 0) return fd;
    reason = why();
  }
  fail(Code::comm, "cannot listen at ", host, ":", port, ": ", reason);
}

Fd connect_to(const std::string& host, uint16_t port, Deadline deadline) {
  const Addresses addresses = look_up(host, port, false);
  for (auto pause = std::chrono::milliseconds(5);; pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
    for (const addrinfo* a = addresses.get(); a; a = a->ai_next) {
      Fd fd = open_socket(*a);
      if (!fd || !try_connect(fd, *a, deadline) || is_itself(fd)) continue;
      tune(fd);
      return fd;
    }
    if (deadline.passed()) fail(Code::comm, "nobody listens at ", host, ":", port);
    std::this_thread::sleep_for(std::min<Deadline::Clock::duration>(pause, deadline.left()));
  }
}

Fd accept_from(const Fd& listener) {
  Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd) tune(fd);
  return fd;
}

uint16_t port_of(const Fd& fd) {
  const sockaddr_storage name = name_of(fd);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(name).sin6_port
                                          : reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

std::string address_of(const Fd& fd) {
  const sockaddr_storage name = name_of(fd);
  char text[NI_MAXHOST];
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&name), sizeof name, text, sizeof text, nullptr, 0, NI_NUMERICHOST))
    fail(Code::comm, "socket: its address cannot be told");
  return text;
}

int poll_ms(Deadline deadline) {
  if (deadline.endless()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
  return static_cast<int>(std::min<int64_t>(left, 3600 * 1000));
}

bool wait_for(const Fd& fd, short events, Deadline deadline, const Fd* wake) {
  for (;;) {
    pollfd waits[] = {{fd.get(), events, 0}, {wake ? wake->get() : -1, POLLIN, 0}};  // -1 is passed over
    const int ready = poll(waits, 2, poll_ms(deadline));
    if (ready > 0 && waits[1].revents) fail(Code::comm, "aborted");
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail(Code::comm, "poll: ", why());
    if (deadline.passed()) return false;
  }
}

ssize_t send_some(const Fd& fd, const void* data, size_t bytes) {
  const ssize_t sent = send(fd.get(), data, bytes, MSG_NOSIGNAL);
  if (sent >= 0) return sent;
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

ssize_t receive_some(const Fd& fd, void* data, size_t bytes) {
  const ssize_t got = recv(fd.get(), data, bytes, 0);
  if (got > 0) return got;
  return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : -1;
}

void send_frame(const Fd& fd, const std::string& body, Deadline deadline) {
  std::string frame;
  put_u32(frame, body.size());
  frame += body;
  all(fd, POLLOUT, frame.size(), deadline,
      [&](size_t done) { return send_some(fd, frame.data() + done, frame.size() - done); });
}

std::string receive_frame(const Fd& fd, size_t most, Deadline deadline) {
  char head[4];
  all(fd, POLLIN, sizeof head, deadline,
      [&](size_t done) { return receive_some(fd, head + done, sizeof head - done); });
  std::string body;
  const size_t size = get_u32(head);
  if (size > most) fail(Code::comm, "connection: a frame of ", size, " bytes, at most ", most, " are expected");
  body.resize(size);
  all(fd, POLLIN, size, deadline, [&](size_t done) { return receive_some(fd, body.data() + done, size - done); });
  return body;
}

std::string pack(std::initializer_list<std::string_view> fields) {
  std::string body;
  for (const std::string_view field : fields) {
    put_u32(body, field.size());
    body += field;
  }
  return body;
}

std::vector<std::string> unpack(std::string_view body, size_t fields) {
  std::vector<std::string> values;
  while (values.size() < fields) {
    const size_t size = body.size() < 4 ? SIZE_MAX : get_u32(body.data());
    if (size > body.size() - std::min<size_t>(4, body.size())) break;
    values.emplace_back(body.substr(4, size));
    body.remove_prefix(4 + size);
  }
  if (values.size() < fields || !body.empty()) fail(Code::comm, "connection: a frame that is not ours");
  return values;
}

bool same_secret(std::string_view a, std::string_view b) {
  unsigned differ = a.size() != b.size();
  for (size_t i = 0; i < a.size(); ++i)
    differ |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return differ == 0;
}

}  // namespace zoetrope
