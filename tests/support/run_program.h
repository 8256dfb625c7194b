// Runs a program as a user would: arguments, environment and standard input given, both outputs kept in files.
#pragma once
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/error.h"
#include "base/file.h"
#include "io/temp_folder.h"

namespace zoetrope {

struct Ran {
  int status = -1;       // exit status; 128 + n for a signal
  std::string out, err;  // what it wrote
};

class Program {
 public:
  struct Setting {
    std::string input;                               // standard input
    std::map<std::string, std::string> environment;  // on top of ours; "" removes a variable
    std::filesystem::path folder;                    // to run in; empty: ours
  };

  Program(const std::string& program, const std::vector<std::string>& arguments, const Setting& setting = {}) {
    std::vector<std::string> words{program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables = environment(setting.environment);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    const std::string in = kept_.put("in", setting.input).string(), out = (kept_ / "out").string(),
                      err = (kept_ / "err").string();
    ::posix_spawn_file_actions_addopen(&files, 0, in.c_str(), O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, 1, out.c_str(), O_WRONLY | O_CREAT, 0644);
    ::posix_spawn_file_actions_addopen(&files, 2, err.c_str(), O_WRONLY | O_CREAT, 0644);
    if (!setting.folder.empty()) ::posix_spawn_file_actions_addchdir_np(&files, setting.folder.c_str());
    posix_spawnattr_t usual;  // signals as a user's shell gives them, whatever this test was started under
    sigset_t all;
    ::posix_spawnattr_init(&usual);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigdefault(&usual, &all);
    ::posix_spawnattr_setflags(&usual, POSIX_SPAWN_SETSIGDEF);
    const int code =
        ::posix_spawn(&pid_, program.c_str(), &files, &usual, pointers(words).data(), pointers(variables).data());
    ::posix_spawnattr_destroy(&usual);
    ::posix_spawn_file_actions_destroy(&files);
    require(code == 0, program, ": cannot be started");
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (pid_ > 0) signal(SIGKILL), wait();
  }

  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  // Until stderr, or "out", holds the text; false if the program ends, or a minute passes, before.
  bool wait_for(const std::string& text, const char* output = "err") {
    for (const Stopwatch watch; watch.seconds() < 60;) {
      if (read(kept_ / output).find(text) != std::string::npos) return true;
      if (ended()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
  // One that takes two minutes is killed.
  Ran wait() {
    const Stopwatch watch;
    while (!ended() && watch.seconds() < 120) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (!ended()) signal(SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(kept_ / "out"), read(kept_ / "err")};
  }

 private:
  bool ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
  }
  static std::string read(const std::filesystem::path& file) {
    return std::filesystem::exists(file) ? read_file(file, 64u << 20) : std::string();
  }
  static std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> list;
    for (std::string& word : words) list.push_back(word.data());
    list.push_back(nullptr);
    return list;
  }
  static std::vector<std::string> environment(const std::map<std::string, std::string>& changes) {
    std::vector<std::string> variables;
    for (char** at = environ; *at; ++at) {
      const std::string text = *at;
      if (!changes.contains(text.substr(0, text.find('=')))) variables.push_back(text);
    }
    for (const auto& [name, value] : changes)
      if (!value.empty()) variables.push_back(name + "=" + value);
    return variables;
  }

  TempFolder kept_;
  pid_t pid_ = -1;
};

inline Ran run_program(const std::string& program, const std::vector<std::string>& arguments,
                       const Program::Setting& setting = {}) {
  return Program(program, arguments, setting).wait();
}

}  // namespace zoetrope
