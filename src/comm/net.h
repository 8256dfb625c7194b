// Sockets for the store and the socket transport: every wait has a deadline, every length is checked before use.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"

namespace zoetrope {

// All throw Error(comm), except listen on a wrong address (invalid). Sockets are non-blocking and closed on exec.
Fd listen_at(const std::string& host, uint16_t port);                      // port 0: a free one
Fd connect_to(const std::string& host, uint16_t port, Deadline deadline);  // tries until somebody listens
Fd accept_from(const Fd& listener);                                        // empty if nobody waits
uint16_t port_of(const Fd& socket);
std::string address_of(const Fd& socket);  // numeric address of this end

// False at the deadline. events as for poll(). Error(comm) once `wake` can be read, if there is one.
bool wait_for(const Fd& fd, short events, Deadline deadline, const Fd* wake = nullptr);
int poll_ms(Deadline deadline);  // timeout for poll(): rounded up, -1 for never

// One attempt that never blocks: bytes moved, 0 if it would block, -1 if the connection is gone.
ssize_t send_some(const Fd& fd, const void* data, size_t bytes);
ssize_t receive_some(const Fd& fd, void* data, size_t bytes);

// A frame is its length (u32, little-endian) and that many bytes; longer ones than `most` are refused unread.
void send_frame(const Fd& fd, const std::string& body, Deadline deadline);
std::string receive_frame(const Fd& fd, size_t most, Deadline deadline);

// Fields of a frame, each its length and its bytes. Reading past the end, or leaving some, throws.
std::string pack(std::initializer_list<std::string_view> fields);
std::vector<std::string> unpack(std::string_view body, size_t fields);

bool same_secret(std::string_view a, std::string_view b);  // in time that does not tell where they differ

}  // namespace zoetrope
