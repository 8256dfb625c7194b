#include "demo/measure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace zoetrope::demo {
namespace {

struct Object {
  std::array<uint8_t, 3> rgb;
  std::function<std::array<double, 3>(double)> at;  // time 0 .. 1 -> x, y, radius, in frame sides
};

// Discs on black, 17 frames of 64x64.
Video draw(const std::vector<Object>& objects) {
  Video clip{17, 64, 64, 16, std::vector<uint8_t>(17 * 64 * 64 * 3, 15)};
  for (int t = 0; t < clip.frames; ++t)
    for (const Object& object : objects) {
      const auto [x, y, radius] = object.at(t / 16.0);
      for (int r = 0; r < 64; ++r)
        for (int c = 0; c < 64; ++c)
          if (std::hypot((c + 0.5) / 64 - x, (r + 0.5) / 64 - y) <= radius)
            std::copy_n(object.rgb.begin(), 3, &clip.rgb[static_cast<size_t>(((t * 64 + r) * 64 + c) * 3)]);
    }
  return clip;
}

std::array<double, 3> linear(double t, double x0, double y0, double x1, double y1, double radius) {
  return {x0 + (x1 - x0) * t, y0 + (y1 - y0) * t, radius};
}

constexpr std::array<uint8_t, 3> red{220, 35, 35}, blue{45, 85, 225};

std::string motion(const std::function<std::array<double, 3>(double)>& at) {
  const auto found = measure(draw({{red, at}}));
  EXPECT_EQ(found.size(), 1u);
  return found.empty() ? "" : found[0].motion;
}

TEST(Measure, ReadsDirections) {
  EXPECT_EQ(motion([](double t) { return linear(t, 0.2, 0.5, 0.8, 0.5, 0.1); }), "right");
  EXPECT_EQ(motion([](double t) { return linear(t, 0.8, 0.5, 0.2, 0.5, 0.1); }), "left");
  EXPECT_EQ(motion([](double t) { return linear(t, 0.5, 0.8, 0.5, 0.2, 0.1); }), "up");
  EXPECT_EQ(motion([](double t) { return linear(t, 0.5, 0.2, 0.5, 0.8, 0.1); }), "down");
}

TEST(Measure, ReadsOtherMotions) {
  constexpr double turn = 2 * 3.14159265358979;
  EXPECT_EQ(motion([](double) { return std::array{0.5, 0.5, 0.1}; }), "still");
  EXPECT_EQ(motion([](double t) { return std::array{0.5, 0.5, 0.08 + 0.12 * t}; }), "grow");
  EXPECT_EQ(motion([](double t) { return std::array{0.5, 0.5, 0.2 - 0.12 * t}; }), "shrink");
  EXPECT_EQ(motion([](double t) {
              return std::array{0.5 + 0.25 * std::cos(turn * t), 0.5 + 0.25 * std::sin(turn * t), 0.1};
            }),
            "circle");
  EXPECT_EQ(motion([](double t) { return std::array{0.5, 0.8 - 0.5 * std::fabs(std::sin(turn * t)), 0.1}; }), "bounce");
}

TEST(Measure, TellsTwoObjectsApartAndJudgesBoth) {
  const auto found = measure(draw({{red, [](double t) { return linear(t, 0.2, 0.3, 0.8, 0.3, 0.18); }},
                                   {blue, [](double t) { return linear(t, 0.5, 0.9, 0.5, 0.5, 0.09); }}}));
  ASSERT_EQ(found.size(), 2u);
  const auto object = [](const char* colour, const char* size, const char* motion) {
    return Json{{"colour", colour}, {"shape", "circle"}, {"size", size}, {"motion", motion}};
  };
  const Obeyed right = judge(found, {object("red", "big", "right"), object("blue", "small", "up")});
  EXPECT_TRUE(right.colour && right.direction && right.size);
  const Obeyed swapped = judge(found, {object("red", "small", "up"), object("blue", "big", "right")});
  EXPECT_TRUE(swapped.colour);
  EXPECT_FALSE(swapped.direction);
  EXPECT_FALSE(swapped.size);
  const Obeyed other = judge(found, {object("red", "big", "right"), object("green", "small", "up")});
  EXPECT_FALSE(other.colour || other.direction || other.size);
}

}  // namespace
}  // namespace zoetrope::demo
