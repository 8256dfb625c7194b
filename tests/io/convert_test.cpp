#include "io/convert.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace zoetrope {
namespace {

template <class To, class From>
std::vector<To> converted(const std::vector<From>& values, DType from, DType to) {
  std::vector<To> out(values.size());
  convert(reinterpret_cast<const std::byte*>(values.data()), from, out.data(), to, values.size());
  return out;
}

TEST(Convert, RoundsToBf16ToNearestEven) {
  const std::vector<uint32_t> words{0x3F808000, 0x3F818000, 0x40490FDB, 0x7F800001, 0xFF800000, 0x7F7FFFFF};
  EXPECT_EQ(converted<uint16_t>(words, DType::f32, DType::bf16),
            (std::vector<uint16_t>{0x3F80, 0x3F82, 0x4049, 0x7FC0, 0xFF80, 0x7F80}));
}

TEST(Convert, KnowsHalfSubnormalsInfinityAndNan) {
  const std::vector<uint16_t> halves{0x0001, 0x8001, 0x03FF, 0x7C00, 0x7E00};
  const auto out = converted<float>(halves, DType::f16, DType::f32);
  EXPECT_EQ(out[0], 0x1p-24f);
  EXPECT_EQ(out[1], -0x1p-24f);
  EXPECT_EQ(out[2], 0x1.ff8p-15f);
  EXPECT_EQ(out[3], std::numeric_limits<float>::infinity());
  EXPECT_NE(out[4], out[4]);
}

TEST(Convert, FindsWhatIsNotFiniteAtAnyPlace) {
  for (const uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFFFFFFFu})
    for (size_t at = 0; at < 37; ++at) {
      std::vector<uint32_t> f32(37, 0x7F7FFFFF);
      std::vector<uint16_t> bf16(37, 0xFF7F);
      EXPECT_TRUE(all_finite(f32.data(), DType::f32, 37) && all_finite(bf16.data(), DType::bf16, 37));
      f32[at] = bits, bf16[at] = static_cast<uint16_t>(bits >> 16);
      EXPECT_FALSE(all_finite(f32.data(), DType::f32, 37)) << at;
      EXPECT_FALSE(all_finite(bf16.data(), DType::bf16, 37)) << at;
      EXPECT_TRUE(all_finite(f32.data(), DType::f32, at) && all_finite(bf16.data(), DType::bf16, at));
    }
  const uint32_t bytes = 0xFFFFFFFF;
  EXPECT_TRUE(all_finite(&bytes, DType::u8, 4));
}

}  // namespace
}  // namespace zoetrope
