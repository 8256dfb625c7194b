// What one rank knows becomes known to all.
#include "comm/agree.h"

#include <atomic>

#include "comm/processes.h"
#include "support/words.h"

namespace zoetrope {
namespace {

struct Agree : testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Agree, testing::Values(1, 2, 3, 4));

void share_texts(Ctx& c, Comm& world) {
  const auto own = [&](int r) {
    return r == 1 ? std::string() : std::string(static_cast<size_t>(r * 300), 'x') + "end";
  };
  const auto texts = all_texts(c, world, own(world.rank()));
  for (int r = 0; r < world.size(); ++r) EXPECT_EQ(texts[static_cast<size_t>(r)], own(r));
  EXPECT_EQ(all_texts(c, world, ""), std::vector<std::string>(static_cast<size_t>(world.size())));
  EXPECT_EQ(sum_over(c, world, {1, static_cast<float>(world.rank())})[0], world.size());
  EXPECT_EQ(c.scratch().used(), 0u);
}

TEST_P(Agree, OnTextsAndSums) { on_ranks(GetParam(), share_texts); }

TEST_P(Agree, OnTextsAndSumsBetweenProcesses) {
  for (const Ended& process : on_processes(GetParam(), share_texts)) EXPECT_TRUE(process.fine()) << process.text;
}

TEST(Together, OneRanksErrorIsThrownByAllAndTheGroupWorksOn) {
  std::atomic<int> thrown = 0;
  on_ranks(3, [&](Ctx& c, Comm& world) {
    together(c, world, [] {});
    try {
      together(c, world, [&] {
        if (world.rank() == 2) fail(Code::out_of_memory, "no room");
      });
    } catch (const AgreedError& error) {
      thrown += error.code() == Code::out_of_memory && error.what() == std::string("rank 2: no room");
    }
    EXPECT_EQ(words([&] { together(c, world, [] { fail(Code::invalid, "no such size"); }); }), "no such size");
    world.barrier(c);
  });
  EXPECT_EQ(thrown, 3);
}

TEST(Together, NamesTheFirstOfSeveral) {
  on_ranks(3, [&](Ctx& c, Comm& world) {
    EXPECT_EQ(words([&] {
                together(c, world, [&] {
                  if (world.rank() > 0) fail(Code::invalid, "file ", world.rank());
                });
              }),
              "rank 1: file 1");
  });
}

}  // namespace
}  // namespace zoetrope
