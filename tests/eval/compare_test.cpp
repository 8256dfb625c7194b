#include "eval/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/words.h"

namespace zoetrope {
namespace {

Difference of(const std::vector<float>& got, const std::vector<float>& ref) { return compare(got, ref); }

TEST(Compare, MeasuresWhatItSays) {
  const Difference d = of({1, 2, -2.5f, 0}, {1, 2, -2, 1});
  EXPECT_DOUBLE_EQ(d.max_abs, 1);
  EXPECT_DOUBLE_EQ(d.max_ref, 2);
  EXPECT_DOUBLE_EQ(d.relative(), 0.5);
  EXPECT_DOUBLE_EQ(d.rms, std::sqrt(10.0 / 4));
  EXPECT_DOUBLE_EQ(d.rel_l2, std::sqrt(1.25 / 10));
  EXPECT_EQ(d.outside, 2);
  EXPECT_FALSE(d.same_bits);
  EXPECT_TRUE(d.finite);
}

TEST(Compare, TellsBitsFromValues) {
  EXPECT_TRUE(of({1, 0}, {1, 0}).same_bits);
  const Difference d = of({1, -0.0f}, {1, 0.0f});
  EXPECT_FALSE(d.same_bits);
  EXPECT_EQ(d.max_abs, 0);
}

TEST(Compare, NeverPassesWhatIsNotFinite) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const Difference d = of({1, bad}, {1, 2});
    EXPECT_FALSE(d.finite);
    EXPECT_EQ(d.max_abs, std::numeric_limits<double>::infinity());
    EXPECT_EQ(d.outside, 1);
  }
  EXPECT_EQ(words([] { of({1}, {1, 2}); }), "compare: 1 values against 2");
}

TEST(Psnr, IsThatOfEightBits) {
  const std::vector<uint8_t> a{0, 255, 10, 20}, b{0, 255, 12, 20};
  EXPECT_EQ(psnr(a, a), std::numeric_limits<double>::infinity());
  EXPECT_NEAR(psnr(a, b), 10 * std::log10(255.0 * 255.0), 1e-9);  // mean square error 1
}

}  // namespace
}  // namespace zoetrope
