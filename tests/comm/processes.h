// Ranks as processes, for tests: each forks, joins the others over sockets and reports what it saw.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>

#include "comm/ranks.h"
#include "comm/socket/world.h"
#include "comm/store.h"

namespace zoetrope {

struct Ended {
  int status = -1;  // of waitpid
  std::string text;
  double seconds = 0;  // from the start of all to its end

  bool fine() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
};

inline uint16_t free_port() { return port_of(listen_at("127.0.0.1", 0)); }

inline Launch local_launch(int rank, int world, uint16_t port, std::string token = "secret") {
  Launch launch;
  launch.rank = launch.local_rank = rank, launch.world = world;
  launch.host = "127.0.0.1", launch.port = port, launch.token = std::move(token);
  return launch;
}

// Forks one process a rank, runs work(rank) in it, and collects what it returns. Failed expectations and errors end a
// process with status 1; the error's words are its text.
inline std::vector<Ended> fork_ranks(int n, const std::function<std::string(int rank)>& work) {
  std::vector<pid_t> children;
  std::vector<Fd> pipes;
  const Stopwatch watch;
  for (int r = 0; r < n; ++r) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    std::cout.flush();
    const pid_t child = fork();
    if (child == 0) {
      std::string text;
      bool failed = false;
      try {
        text = work(r);
      } catch (const std::exception& error) {
        text = error.what(), failed = true;
      }
      const bool written = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
      std::cout.flush();
      _exit(failed || !written || testing::Test::HasFailure());
    }
    close(ends[1]);
    children.push_back(child);
    pipes.emplace_back(ends[0]);
  }
  std::vector<Ended> ended(static_cast<size_t>(n));
  for (int left = n; left > 0; --left) {
    int status = 0;
    const pid_t child = wait(&status);
    const auto r = static_cast<size_t>(std::ranges::find(children, child) - children.begin());
    ended.at(r).status = status, ended[r].seconds = watch.seconds();
    char buffer[4096];
    const ssize_t got = read(pipes[r].get(), buffer, sizeof buffer);
    ended[r].text.assign(buffer, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  }
  return ended;
}

// The same with a world joined; an error aborts the group, as the engine's processes do.
inline std::vector<Ended> on_processes(int n, const std::function<void(Ctx& c, Comm& world)>& body,
                                       const Waits& waits = short_waits()) {
  const uint16_t port = free_port();
  return fork_ranks(n, [&](int r) -> std::string {
    SocketWorld world(local_launch(r, n, port), waits);
    try {
      Rank rank;
      prepare_rank(rank, r);
      const auto comm = world.comm();
      Ctx c(rank);
      body(c, *comm);
    } catch (...) {
      world.abort(current_cause(r));
      fail(Code::comm, world.cause()->words());
    }
    return "fine";
  });
}

}  // namespace zoetrope
