// A key-value store over TCP by which processes find each other. Rank 0 serves it at the launch's host and port; every
// rank, 0 too, is a client. The server treats a connection as hostile until it has shown the launch's token: short
// frames, few of them, and little time.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "comm/launch.h"
#include "comm/net.h"

namespace zoetrope {

class StoreServer {
 public:
  explicit StoreServer(const Launch& launch);  // port 0: a free one
  ~StoreServer();                              // gives clients up to 1 s to hear the last answers and leave
  uint16_t port() const;
  void finish(Deadline deadline);  // waits until every client has left

  struct State;

 private:
  std::unique_ptr<State> state_;
};

class Store {
 public:
  Store(const Launch& launch, Deadline deadline);  // waits for rank 0 to listen
  ~Store();

  void set(const std::string& key, const std::string& value, Deadline deadline);
  // Waits for somebody to set it; nullopt at the deadline, after which this store is of no use. Error(comm) as soon as
  // a rank that had joined is gone, or once the wake can be read.
  std::optional<std::string> get(const std::string& key, Deadline deadline);
  void drop() { connection_ = Fd(); }  // leaves without goodbye: the others hear that this rank is lost
  std::string why_lost() noexcept;  // "rank 3 died while the ranks were joining", or "" where rank 0 knows of no such
  void wake_by(const Fd& wake) { wake_ = &wake; }  // it must outlive the waits
  const Fd* wake() const { return wake_; }
  std::string local_address() const { return address_of(connection_); }  // by which this host reaches rank 0

  static constexpr size_t most_key = 256, most_value = 16384, most_keys = 65536;

 private:
  std::string reply();

  Fd connection_;
  const Fd* wake_ = nullptr;
};

}  // namespace zoetrope
