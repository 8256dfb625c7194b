// The include tables of docs/architecture.md against the tree, and planted violations against the checker.
#include <gtest/gtest.h>

#include "repo/rules.h"

namespace zoetrope::repo {
namespace {

const char* const page = R"(
```layers
base -> # nothing
core -> base
ops -> core
ops/cpu -> ops core
nn -> ops core
cli -> *
tools/mp4 ->
```
```libraries
dnnl. -> ops/cpu
nlohmann/ -> base
CLI/ -> cli
libav -> tools/mp4
```
)";

Complaints includes(const std::string& path, const std::string& text) {
  return check_includes(read_rules(page), {{path, text}});
}

// One complaint that contains the words.
void expect_one(const Complaints& complaints, const std::string& words) {
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_NE(complaints[0].find(words), std::string::npos) << complaints[0];
}

std::string all(const Complaints& complaints) {
  std::string out;
  for (const std::string& line : complaints) out += line + "\n";
  return out;
}

TEST(Layering, TreeKeepsBothTables) {
  const auto docs = read_tree(ZOETROPE_SOURCE_DIR, {"docs/architecture.md"});
  ASSERT_EQ(docs.size(), 1u);
  const auto files = read_tree(ZOETROPE_SOURCE_DIR, {"src", "tools/mp4"});
  ASSERT_GT(files.size(), 20u);  // an empty walk must not pass
  const Complaints complaints = check_includes(read_rules(docs[0].text), files);
  EXPECT_TRUE(complaints.empty()) << all(complaints);
}

TEST(Layering, AllowsWhatTheTableAllows) {
  const std::string text =
      "#include \"core/ctx.h\"\n#include \"base/error.h\"\n#include \"ops/cpu/x.h\"\n#include <vector>\n";
  EXPECT_EQ(all(includes("src/ops/cpu/gemm.cpp", text + "#include <dnnl.hpp>\n#include <sys/mman.h>\n")), "");
  EXPECT_EQ(all(includes("src/cli/main.cpp", text + "#include <CLI/CLI.hpp>\n#include \"version.h\"\n")), "");
}

TEST(Layering, FindsAnUpwardInclude) {
  expect_one(includes("src/core/ctx.cpp", "\n#include \"ops/ops.h\"\n"),
             "src/core/ctx.cpp:2: core includes \"ops/ops.h\" of ops, but may include only base and base");
}

TEST(Layering, FindsASiblingAndABackEndPassedBy) {
  expect_one(includes("src/nn/linear.cpp", "#include \"ops/cpu/backend.h\""), "of ops/cpu, but may include only");
  expect_one(includes("src/ops/cpu/x.cpp", "# include \"nn/linear.h\""), "ops/cpu includes \"nn/linear.h\" of nn");
}

TEST(Layering, FindsALibraryInTheWrongPlace) {
  expect_one(includes("src/ops/ops.cpp", "#include <dnnl.hpp>"), "which is for ops/cpu");
  expect_one(includes("src/cli/main.cpp", "#include <libavcodec/avcodec.h>"), "which is for tools/mp4");
  expect_one(includes("src/base/x.cpp", "#include <boost/any.hpp>"), "a library that no row names");
  expect_one(includes("src/core/x.h", "#include <omp.h>"), "a library that no row names");
}

TEST(Layering, FindsFilesAndHeadersOutsideEveryLayer) {
  expect_one(includes("src/new/x.cpp", ""), "lies in no layer");
  expect_one(includes("src/core/x.cpp", "#include \"x.h\""), "\"x.h\", which lies in no layer");
}

TEST(Layering, ToolsNameTheirOwnFilesAndNoLayer) {
  EXPECT_EQ(all(includes("tools/mp4/main.cpp", "#include \"video.h\"\n#include <libavutil/pixdesc.h>\n")), "");
  expect_one(includes("tools/mp4/main.cpp", "#include \"core/ctx.h\""),
             "of core, but may include only base and nothing");
  expect_one(includes("tools/mp4/main.cpp", "#include \"../../src/core/ctx.h\""), "which lies in no layer");
  expect_one(includes("tools/mp4/main.cpp", "#include <dnnl.h>"), "which is for ops/cpu");
}

TEST(Layering, SeesNoIncludeInAComment) {
  EXPECT_EQ(all(includes("src/core/x.cpp", "// #include \"ops/ops.h\"\n/*\n#include <dnnl.hpp>\n*/\n")), "");
  expect_one(includes("src/core/x.cpp", "const char* a = \"/*\";\n#include \"ops/ops.h\"\n"), ":2: core includes");
}

TEST(Layering, RefusesABrokenPage) {
  EXPECT_THROW(read_rules("no tables"), std::runtime_error);
  EXPECT_THROW(read_rules("```layers\na -> b\n```\n```libraries\n```\n"), std::runtime_error);
  EXPECT_THROW(read_rules("```layers\na b\n```\n```libraries\n\n```\n"), std::runtime_error);
}

}  // namespace
}  // namespace zoetrope::repo
