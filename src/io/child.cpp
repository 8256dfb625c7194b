#include "io/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"

namespace zoetrope {
namespace {

// Above the standard streams, so that handing it to a child as one of them never meets itself.
Fd lifted(int fd) {
  const Fd low(fd);
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (high < 0) fail(Code::device, "child: no file descriptor left: ", std::strerror(errno));
  return Fd(high);
}

FdPair pair_of(const int fds[2]) { return {lifted(fds[0]), lifted(fds[1])}; }

struct Actions {
  posix_spawn_file_actions_t actions;
  Actions() { ::posix_spawn_file_actions_init(&actions); }
  ~Actions() { ::posix_spawn_file_actions_destroy(&actions); }
  void give(int fd, int as) {
    if (fd < 0)
      ::posix_spawn_file_actions_addopen(&actions, as, "/dev/null", as == 0 ? O_RDONLY : O_WRONLY, 0);
    else
      ::posix_spawn_file_actions_adddup2(&actions, fd, as);
  }
};

struct Attributes {
  posix_spawnattr_t attributes;
  Attributes() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes); }
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (std::string& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

std::string name_of(const std::string& variable) { return variable.substr(0, variable.find('=')); }

std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  for (char** at = environ; *at; ++at) {
    const std::string ours = *at;
    if (std::ranges::none_of(variables, [&](const std::string& v) { return name_of(v) == name_of(ours); }))
      all.push_back(ours);
  }
  return all;
}

}  // namespace

FdPair make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) fail(Code::device, "child: no pipe: ", std::strerror(errno));
  return pair_of(fds);
}

FdPair make_socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    fail(Code::device, "child: no socket pair: ", std::strerror(errno));
  return pair_of(fds);
}

Child::Child(const std::filesystem::path& program, const std::vector<std::string>& arguments, int in, int out, int err,
             const std::vector<std::string>& variables) {
  Actions files;
  files.give(in, 0);
  files.give(out, 1);
  files.give(err, 2);
  const Attributes attributes;
  std::string name = program.string();
  std::vector<std::string> words = arguments, settings = environment_with(variables);
  words.insert(words.begin(), name);
  const int code = ::posix_spawn(&pid_, name.c_str(), &files.actions, &attributes.attributes, pointers(words).data(),
                                 pointers(settings).data());
  if (code != 0) pid_ = -1;
  require(code == 0, name, ": cannot be started: ", std::strerror(code));
}

Child::~Child() {
  kill();
  wait();
}

void Child::signal(int number) {
  if (pid_ > 0) ::kill(pid_, number);
}

std::optional<int> Child::status() const {
  return WIFEXITED(status_) ? std::optional(WEXITSTATUS(status_)) : std::nullopt;
}

void Child::kill() {
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

bool Child::ends_by(Deadline deadline) {
  using namespace std::chrono_literals;
  while (pid_ > 0) {
    const pid_t ended = ::waitpid(pid_, &status_, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno != EINTR))
      pid_ = -1;
    else if (deadline.passed())
      return false;
    else
      std::this_thread::sleep_for(2ms);
  }
  return true;
}

std::string Child::wait() {
  if (pid_ > 0) {
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }
  if (WIFSIGNALED(status_)) return cat("was killed (signal ", WTERMSIG(status_), ")");
  return WEXITSTATUS(status_) == 0 ? std::string() : cat("ended with status ", WEXITSTATUS(status_));
}

}  // namespace zoetrope
