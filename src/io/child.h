// A child process without a shell: its three standard streams given, everything else closed.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"

namespace zoetrope {

struct FdPair {
  Fd ours, theirs;
};
FdPair make_pipe();         // ours reads what theirs writes
FdPair make_socket_pair();  // so that writes can be told not to raise SIGPIPE

// Runs in a process group of its own: a Ctrl-C at the terminal reaches us, and we decide. Killed when it goes out of
// scope.
class Child {
 public:
  // A negative descriptor is /dev/null. Error(invalid) if the program cannot be started.
  // `variables` ("NAME=value") replace those of our environment, or come on top.
  Child(const std::filesystem::path& program, const std::vector<std::string>& arguments, int in, int out, int err,
        const std::vector<std::string>& variables = {});
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  pid_t pid() const { return pid_; }  // -1 once it has ended
  void signal(int number);            // it alone
  void kill();                        // and what it has started
  // Waits for its end and says how it ended: empty for exit status 0, else "ended with status 3", "was killed (signal
  // 9)".
  std::string wait();
  bool ends_by(Deadline deadline);  // waits until then at most
  // Once it has ended: its exit status; nothing where a signal killed it.
  std::optional<int> status() const;

 private:
  pid_t pid_ = -1;
  int status_ = -1;
};

}  // namespace zoetrope
