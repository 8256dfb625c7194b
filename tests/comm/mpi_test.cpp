// Ranks by mpirun: the verbs, and jobs that end when a rank fails.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "base/cat.h"
#include "base/deadline.h"

namespace zoetrope {
namespace {

struct Job {
  int status;
  std::string text;
  double seconds;
};

Job shell(const std::string& command) {
  const Stopwatch watch;
  FILE* pipe = popen(cat(command, " 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), got);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text, watch.seconds()};
}

// An mpirun that works as root, with more ranks than cores, and leaves a core to the others.
Job mpirun(int ranks, const std::string& what) {
  return shell(
      cat("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe "
          "--mca mpi_yield_when_idle 1 -n ",
          ranks, " " ZOETROPE_BINARY_DIR "/bin/comm_mpi_rank ", what));
}

TEST(Mpi, RunsEveryVerb) {
  for (const int ranks : {1, 3, 4}) {
    const Job job = mpirun(ranks, "verbs");
    EXPECT_EQ(job.status, 0) << job.text;
  }
}

TEST(Mpi, EndsTheJobWhenARankThrows) {
  const Job job = mpirun(4, "throw");
  EXPECT_EQ(job.status, 4) << job.text;
  EXPECT_NE(job.text.find("rank 3: no room for frames"), std::string::npos) << job.text;
  EXPECT_LT(job.seconds, 10);
}

TEST(Mpi, EndsTheJobWhenARankStalls) {
  const Job job = mpirun(4, "stall");
  EXPECT_EQ(job.status, 4) << job.text;
  EXPECT_NE(job.text.find("axis world: barrier 2 of 0 bytes: rank 3 is not there after 0.5 s (waits of class step)"),
            std::string::npos)
      << job.text;
  EXPECT_LT(job.seconds, 10);
}

TEST(Mpi, EndsTheJobWhenARankLeaves) {
  const Job job = mpirun(4, "exit");
  EXPECT_NE(job.status, 0) << job.text;
  EXPECT_LT(job.seconds, 10);
}

TEST(Mpi, IsNotStartedWithoutMpirun) {
  const Job job = shell("SLURM_PROCID=0 SLURM_NTASKS=1 " ZOETROPE_BINARY_DIR "/bin/comm_mpi_rank verbs");
  EXPECT_EQ(job.status, 2);
  EXPECT_EQ(job.text, "mpi: this process was not started by mpirun; start it so, or use --ranks\n");
}

}  // namespace
}  // namespace zoetrope
