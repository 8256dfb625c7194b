// docs/faults.md names tests; each of them must exist.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "repo/tree.h"

namespace zoetrope::repo {
namespace {

std::set<std::string> found(const std::string& text, const char* pattern, const char* form) {
  std::set<std::string> all;
  const std::regex regex(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) all.insert(at->format(form));
  return all;
}

std::set<std::string> tests_of(const std::vector<File>& files) {
  std::set<std::string> all;
  for (const File& file : files)
    if (is_code(file.path)) all.merge(found(file.text, R"(TEST(_F|_P)?\((\w+),\s*(\w+)\))", "$2.$3"));
  return all;
}

std::set<std::string> named_in(const std::string& page) { return found(page, R"(`([A-Z]\w*\.[A-Z]\w*)`)", "$1"); }

TEST(Faults, TheirTestsExist) {
  const std::set<std::string> known = tests_of(read_tree(ZOETROPE_SOURCE_DIR, {"tests"}));
  const auto page = read_tree(ZOETROPE_SOURCE_DIR, {"docs/faults.md"});
  ASSERT_EQ(page.size(), 1u);
  const std::set<std::string> named = named_in(page[0].text);
  EXPECT_GT(named.size(), 50u);
  for (const std::string& name : named) EXPECT_TRUE(known.contains(name)) << name << " is no test";
}

TEST(Faults, AreMissedWhereTheyAreNot) {
  const auto known = tests_of({{"tests/x.cpp", "TEST(A, B) {\nTEST_F(C,\n       D)"}, {"tests/x.md", "TEST(E, F)"}});
  EXPECT_EQ(known, (std::set<std::string>{"A.B", "C.D"}));
  EXPECT_EQ(named_in("| `A.B`, `tests/a.cpp`, `model.json` and `C.D` |"), (std::set<std::string>{"A.B", "C.D"}));
}

}  // namespace
}  // namespace zoetrope::repo
