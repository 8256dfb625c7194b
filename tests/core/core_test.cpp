#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "core/dtype.h"
#include "core/heads.h"
#include "core/pool.h"
#include "core/region.h"
#include "core/tensor.h"
#include "support/words.h"

namespace zoetrope {
namespace {

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(bf16(1.0f).bits, 0x3F80);
  EXPECT_EQ(bf16(3.140625f).bits, 0x4049);
  EXPECT_EQ(bf16(-2.0f).bits, 0xC000);
  EXPECT_EQ(bf16(1.00390625f).bits, 0x3F80);
  EXPECT_EQ(bf16(1.01171875f).bits, 0x3F82);
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Half, HasTheValueThatTheStandardGivesIt) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    f16 half;
    half.bits = static_cast<uint16_t>(bits);
    const auto value = static_cast<float>(half);
    const int exponent = bits >> 10 & 31, fraction = bits & 0x3FF;
    ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    if (exponent == 31)
      ASSERT_TRUE(fraction == 0 ? std::isinf(value) : std::isnan(value)) << bits;
    else if (exponent == 0)
      ASSERT_EQ(std::fabs(value), std::ldexp(static_cast<float>(fraction), -24)) << bits;
    else
      ASSERT_EQ(std::fabs(value), std::ldexp(static_cast<float>(1024 + fraction), exponent - 25)) << bits;
  }
}

TEST(Half, ReturnsEveryFiniteValueUnchanged) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    f16 half;
    half.bits = static_cast<uint16_t>(bits);
    const auto value = static_cast<float>(half);
    if (std::isnan(value)) continue;
    ASSERT_EQ(f16(value).bits, bits) << value;
  }
  EXPECT_EQ(f16(65519.0f).bits, 0x7BFF);
  EXPECT_EQ(f16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(f16(1.0f + 0x1p-11f).bits, 0x3C00);  // a tie goes to even
}

TEST(Shape, RefusesWhatCannotBeASize) {
  EXPECT_EQ(words([] { Shape{2, -1}; }), "shape: extent -1 is negative");
  EXPECT_EQ(words([] { Shape{int64_t{1} << 40, int64_t{1} << 40}; }), "shape: too many elements");
  EXPECT_EQ(words([] { Shape{2, 3}.dim(2); }), "shape: axis 2 of [2, 3]");
  EXPECT_EQ(Shape({2, 0, 3}).size(), 0);
}

TEST(Tensor, SlicesItsOuterAxis) {
  std::vector<float> data(24);
  std::iota(data.begin(), data.end(), 0.0f);
  const Tensor x(data.data(), {4, 2, 3}, DType::f32);
  EXPECT_EQ(x.rows(1, 3).shape(), Shape({2, 2, 3}));
  EXPECT_EQ(x.rows(1, 3).data<float>()[0], 6.0f);
  EXPECT_EQ(x.row(3).shape(), Shape({2, 3}));
  EXPECT_EQ(x.row(3).data<float>()[5], 23.0f);
  EXPECT_EQ(words([&] { x.rows(3, 5); }), "rows: [3, 5) of [4, 2, 3]");
  EXPECT_EQ(words([&] { x.view({5}); }), "view: [5] does not hold the elements of [4, 2, 3]");
}

TEST(Heads, AddressPackedProjections) {
  std::vector<float> data(2 * 12);
  std::iota(data.begin(), data.end(), 0.0f);
  const Tensor packed(data.data(), {2, 12}, DType::f32);  // q | k | v, 2 heads of 2
  const Heads k = as_heads(packed, 4, 2, 2);
  EXPECT_EQ(k.token<float>(1)[2], 18.0f);
  EXPECT_EQ(slice_heads(slice(k, 1, 2), 1, 2).token<float>(0)[1], 19.0f);
  EXPECT_EQ(words([&] { as_heads(packed, 10, 2, 2); }), "as_heads: columns [10, 14) of [2, 12]");
}

TEST(Region, NeverMovesAndCountsItsPeak) {
  Region region("scratch", host_pages(size_t{1} << 30), size_t{64} << 20);
  auto* first = static_cast<char*>(region.take(100));
  first[99] = 7;
  {
    Scope scope(region);
    auto* large = static_cast<char*>(region.take(size_t{32} << 20));
    large[0] = 1, large[(32 << 20) - 1] = 2;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % Region::alignment, 0u);
  }
  EXPECT_EQ(first[99], 7);
  EXPECT_EQ(region.used(), 256u);
  EXPECT_EQ(region.peak(), 256u + (size_t{32} << 20));
  region.trim();
  EXPECT_EQ(region.committed(), size_t{2} << 20);
  EXPECT_EQ(words([&] { region.take(size_t{64} << 20); }),
            "memory: scratch needs 67108864 bytes more, has 256 of 67108864");
}

// ulimit -v, for as long as it lives.
struct AddressLimit {
  explicit AddressLimit(size_t more) {
    std::ifstream pages("/proc/self/statm");
    size_t taken = 0;
    pages >> taken;
    ::getrlimit(RLIMIT_AS, &before);
    const struct rlimit limit { taken* static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + more, before.rlim_max };
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressLimit() { ::setrlimit(RLIMIT_AS, &before); }
  struct rlimit before {};
};

TEST(Region, TakesOnlyWhatItUsesOfALimitOnAddresses) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory takes more addresses than any limit leaves";
#endif
  const AddressLimit limit(size_t{256} << 20);
  const size_t range = size_t{1} << 39;
  Region a("a", host_pages(range), SIZE_MAX), b("b", host_pages(range), SIZE_MAX);
  auto* first = static_cast<char*>(a.take(size_t{64} << 20));
  auto* other = static_cast<char*>(b.take(size_t{64} << 20));
  first[(64 << 20) - 1] = 1, other[0] = 2;
  EXPECT_EQ(static_cast<char*>(a.take(size_t{32} << 20)), first + (64 << 20));  // grows in place
  EXPECT_EQ(first[(64 << 20) - 1], 1);
  EXPECT_EQ(
      words([&] { b.take(size_t{512} << 20); }),
      "memory: cannot use 536870912 more bytes: Cannot allocate memory; there is a limit on the addresses of this "
      "process (ulimit -v)");
  a.rewind(0);
  a.trim();  // what is given back may be taken by others
  EXPECT_EQ(static_cast<char*>(b.take(size_t{128} << 20)), other + (64 << 20));
  EXPECT_EQ(static_cast<char*>(a.take(1)), first);
}

TEST(Region, CountsWhatNobodyHas) {
  Region region("scratch", dry_pages(size_t{1} << 44), SIZE_MAX);
  const size_t mark = region.used();
  region.take(size_t{1} << 42);
  region.rewind(mark);
  EXPECT_EQ(region.peak(), size_t{1} << 42);
}

TEST(Pool, CoversEveryIndexOnceWithTheSamePieces) {
  for (const int threads : {1, 2, 4}) {
    Pool pool(threads);
    std::vector<std::atomic<int>> seen(1001);
    pool.for_each(1001, 10, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(begin % 10, 0);
      for (int64_t i = begin; i < end; ++i) ++seen[i];
    });
    for (const auto& count : seen) ASSERT_EQ(count, 1);
  }
}

TEST(Pool, RethrowsTheFirstErrorAndLivesOn) {
  Pool pool(3);
  EXPECT_EQ(words([&] { pool.for_each(100, 1, [](int64_t i, int64_t) { require(i != 50, "piece ", i); }); }),
            "piece 50");
  std::atomic<int> total = 0;
  pool.for_each(100, 1, [&](int64_t, int64_t) { ++total; });
  EXPECT_EQ(total, 100);
}

TEST(Pool, BeginsNoPieceOnceAStopWasAskedFor) {
  for (const int threads : {1, 2, 4}) {
    Pool pool(threads);
    std::stop_source source;
    std::atomic<int> began = 0;
    const auto body = [&](int64_t i, int64_t) {
      ++began;
      while (i > 50 && !source.stop_requested())
        std::this_thread::yield();  // or they are all done before piece 50 begins
      if (i != 50) return;
      while (began < 51) std::this_thread::yield();  // others may have been handed an earlier piece and not begun it
      source.request_stop();
    };
    EXPECT_EQ(code_of([&] { pool.for_each(100'000, 1, body, source.get_token()); }), Code::cancelled);
    EXPECT_GE(began, 51);
    EXPECT_LT(began, 100'000);
    if (threads == 1) {
      EXPECT_EQ(began, 51);
    }
    EXPECT_EQ(words([&] { pool.for_each(1, 1, body, source.get_token()); }), "cancelled");
    pool.for_each(10, 1, body);  // what is not of that job goes on
  }
}

TEST(Pool, LetsANestedCallRunInItsCaller) {
  Pool pool(2);
  std::atomic<int> total = 0;
  pool.for_each(4, 1, [&](int64_t, int64_t) { pool.for_each(10, 1, [&](int64_t, int64_t) { ++total; }); });
  EXPECT_EQ(total, 40);
}

}  // namespace
}  // namespace zoetrope
