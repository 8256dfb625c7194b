// The exit status of each error code (docs/stability.md lists them).
#include "cli/edge.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace zoetrope
