// The exit status of each error code (docs/stability.md lists them).
#include "cli/edge.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <system_error>

namespace zoetrope {
namespace {

TEST(Edge, EveryCodeHasItsExitStatus) {
  EXPECT_EQ(cli::exit_status(Code::invalid), 2);
  EXPECT_EQ(cli::exit_status(Code::unsupported), 2);
  EXPECT_EQ(cli::exit_status(Code::busy), 4);  // not bad input: the same again may do
  EXPECT_EQ(cli::exit_status(Code::out_of_memory), 3);
  EXPECT_EQ(cli::exit_status(Code::comm), 4);
  EXPECT_EQ(cli::exit_status(Code::device), 4);
  EXPECT_EQ(cli::exit_status(Code::cancelled), 130);
}

TEST(Edge, SaysOneLineWhateverTheNameHolds) {
  EXPECT_EQ(cli::one_line("a\nb\x1b[31m\x7f"), "a?b?[31m?");
  testing::internal::CaptureStderr();
  EXPECT_EQ(cli::guarded([]() -> int { fail(Code::busy, "queue: 2 jobs wait\nalready"); }), 4);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "zoetrope: queue: 2 jobs wait?already\n");
}

TEST(Edge, SaysWhatTheLibraryThrowsInOurTerms) {
  const auto said = [](int status, const std::function<int()>& command) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(cli::guarded(command), status);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said(3, []() -> int { throw std::bad_alloc(); }),
            "zoetrope: host memory is exhausted; a smaller request, or more room for this process (ulimit -v), would "
            "do\n");
  EXPECT_EQ(said(3, []() -> int { throw std::system_error(EAGAIN, std::generic_category()); }),
            "zoetrope: threads: the system gives no more; fewer ranks or --threads, or a higher limit (ulimit -u, -v), "
            "would do\n");
  EXPECT_EQ(said(2, []() -> int { return std::filesystem::exists(std::string(5000, 'x')); }),
            cat("zoetrope: ", std::string(5000, 'x'), ": File name too long\n"));
  EXPECT_EQ(said(4, []() -> int { throw std::runtime_error("odd"); }), "zoetrope: odd\n");
}

}  // namespace
}  // namespace zoetrope
