// Words and places that may not stand in the tree, and planted ones that must be found.
#include <gtest/gtest.h>

#include "repo/rules.h"

namespace zoetrope::repo {
namespace {

std::string all(const Complaints& complaints) {
  std::string out;
  for (const std::string& line : complaints) out += line + "\n";
  return out;
}

std::string words(const std::string& path, const std::string& text) { return all(check_words({{path, text}})); }
std::string places(const std::string& text) { return all(check_places({{"docs/x.md", text}})); }

TEST(Words, TreeHasNone) {
  const auto files = read_tree(ZOETROPE_SOURCE_DIR, {"src", "tools/mp4"});
  ASSERT_GT(files.size(), 20u);
  EXPECT_EQ(all(check_words(files)), "");
}

TEST(Words, FindsThePlantedOnes) {
  EXPECT_EQ(words("src/core/x.cpp", "\nauto* home = std::getenv(\"HOME\");"), "src/core/x.cpp:2: getenv below cli\n");
  EXPECT_EQ(words("src/ops/x.cpp", "thread_local int x;"), "src/ops/x.cpp:1: thread_local\n");
  EXPECT_EQ(words("src/cli/x.cpp", "  # pragma omp parallel for"), "src/cli/x.cpp:1:   # pragma omp\n");
}

TEST(Words, LeavesCliCommentsAndTextAlone) {
  EXPECT_EQ(words("src/cli/x.cpp", "getenv(\"HOME\")"), "");
  EXPECT_EQ(words("src/core/x.cpp", "// no getenv, no thread_local\nlog(\"getenv\\\" thread_local\"); int x = 1'000;"),
            "");
  EXPECT_EQ(words("docs/x.md", "thread_local"), "");
}

TEST(Places, TreeHasNone) {
  const auto files =
      read_tree(ZOETROPE_SOURCE_DIR, {"src",         "tests",          "tools",           "bench",
                                      "configs",     "docs",           "scripts",         "cmake",
                                      ".ci",         ".github",        "CMakeLists.txt",  "CMakePresets.json",
                                      "Makefile",    "README.md",      "CONTRIBUTING.md", "CHANGELOG.md",
                                      "SECURITY.md", "THIRD_PARTY.md", "NOTICE",          ".clangd",
                                      ".clang-tidy"});
  ASSERT_GT(files.size(), 20u);
  EXPECT_EQ(all(check_places(files)), "");
}

TEST(Places, FindsThePlantedOnes) {
  const std::string slash = "/";
  EXPECT_NE(places("see " + slash + "home/anna/x"), "");
  EXPECT_NE(places("cd " + slash + "root/build"), "");
  EXPECT_NE(places("`" + slash + "work/x`"), "");
  EXPECT_NE(places("http://deb.debian" + std::string(".org/debian")), "");
  EXPECT_EQ(places("src/work/x, ~/root/x, https://example.com/home/x, $HOME/root/a"), "");
}

}  // namespace
}  // namespace zoetrope::repo
