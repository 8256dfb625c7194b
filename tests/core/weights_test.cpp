// Weights that ranks of one device share.
#include "core/weights.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/dry_rank.h"
#include "support/words.h"

namespace zoetrope {
namespace {

struct Loads {
  SharedWeights shared;
  std::atomic<int> loads = 0;
  Pool pool{1};

  std::vector<Tensor> get(Rank& rank, const std::string& slice, const char* error = nullptr) {
    rank.pool = &pool, rank.shared = &shared;
    rank.backend = reinterpret_cast<Backend*>(&pool);  // works on host memory; no op is called
    rank.make_pages = [](size_t) { return host_pages(size_t{4} << 20); };
    const Ctx c(rank);
    return c.load_weights("transformer", slice, [&](Region& region) {
      ++loads;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // others come meanwhile
      const Tensor w = c.empty({16}, DType::f32, region);
      if (error) fail(Code::invalid, error);
      std::fill_n(w.data<float>(), 16, 3.0f);
      return std::vector{w};
    });
  }
};

TEST(SharedWeights, AreLoadedOnceAndUsedByAll) {
  Loads all;
  std::vector<Rank> ranks(4);
  std::vector<std::vector<Tensor>> got(4);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < 4; ++r) threads.emplace_back([&, r] { got[r] = all.get(ranks[r], r < 3 ? "tp 0" : "tp 1"); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(all.loads, 2);
  for (const auto& tensors : got) EXPECT_EQ(*tensors[0].data<float>(), 3.0f);
  EXPECT_EQ(got[0][0].raw(), got[1][0].raw());
  EXPECT_EQ(got[0][0].raw(), got[2][0].raw());
  EXPECT_NE(got[0][0].raw(), got[3][0].raw());
  EXPECT_EQ(ranks[0].weights.at("transformer"), ranks[1].weights.at("transformer"));
}

TEST(SharedWeights, AreGivenBackWithTheLastRankAndLoadedAgain) {
  Loads all;
  Rank a, b;
  all.get(a, ""), all.get(b, "");
  a.weights.clear();
  Rank c;
  all.get(c, "");  // b holds them yet
  EXPECT_EQ(all.loads, 1);
  b.weights.clear(), c.weights.clear();
  all.get(a, "");
  EXPECT_EQ(all.loads, 2);
}

TEST(SharedWeights, AreTriedAgainByWhoWaitedForALoadThatFailed) {
  Loads all;
  Rank a, b;
  std::string said;
  std::thread first([&] { said = words([&] { all.get(a, "", "the disk is gone"); }); });
  while (all.loads == 0) std::this_thread::yield();
  EXPECT_EQ(*all.get(b, "")[0].data<float>(), 3.0f);
  first.join();
  EXPECT_EQ(said, "the disk is gone");
  EXPECT_FALSE(a.weights.contains("transformer"));
}

}  // namespace
}  // namespace zoetrope
