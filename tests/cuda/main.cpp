// Runs the cases and ends with a table, a line a suite, so that the last lines of a log say what works. Failures follow
// it. Without a GPU that works: one line, and exit status 4.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/cuda/backend.h"

namespace {

class Table : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& part) override {
    if (part.failed() && first_.empty()) first_ = part.summary();
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    Row& row = rows_[test.test_suite_name()];
    ++row.cases;
    row.ms += static_cast<long>(test.result()->elapsed_time());
    if (test.result()->Failed()) {
      ++row.failed;
      failures_.push_back(std::string(test.test_suite_name()) + "." + test.name() + ": " + one_line(first_));
    }
    first_.clear();
  }
  void OnTestProgramEnd(const testing::UnitTest& unit) override {
    std::printf("\n%-28s %6s %6s %9s\n", "suite", "cases", "failed", "ms");
    for (const auto& [name, row] : rows_)
      std::printf("%-28s %6d %6d %9ld\n", name.c_str(), row.cases, row.failed, row.ms);
    std::printf("%-28s %6d %6d %9ld\n", "all", unit.test_to_run_count(), unit.failed_test_count(),
                static_cast<long>(unit.elapsed_time()));
    for (const std::string& line : failures_) std::printf("failed: %.300s\n", line.c_str());
  }

 private:
  struct Row {
    int cases = 0, failed = 0;
    long ms = 0;
  };
  static std::string one_line(std::string text) {
    for (char& c : text)
      if (c == '\n') c = ' ';
    return text;
  }

  std::map<std::string, Row> rows_;
  std::vector<std::string> failures_;
  std::string first_;
};

bool device_works() {
  try {
    zoetrope::make_cuda_backend(0);
    return true;
  } catch (const zoetrope::Error& e) {
    std::fprintf(stderr, "test_cuda: %s\n", e.what());
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests) && !device_works()) return 4;
  testing::UnitTest::GetInstance()->listeners().Append(new Table);  // owned by the list
  return RUN_ALL_TESTS();
}
