#include "sched/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sched/unipc.h"
#include "support/words.h"

namespace zoetrope {
namespace {

SchedulerConfig shift(double value) {
  SchedulerConfig config;
  config.flow_shift = value;
  return config;
}

using Steps = std::vector<int64_t>;

TEST(Schedule, GivesTheFoldersTimestepsAtShift3) {
  EXPECT_EQ(make_schedule(shift(3), 40, Grid::diffusers).timesteps,
            (Steps{999, 991, 982, 973, 964, 954, 944, 934, 923, 911, 900, 887, 875, 861, 848, 833, 818, 802, 786, 768,
                   750, 731, 710, 689, 667, 643, 618, 591, 563, 533, 500, 466, 429, 390, 347, 301, 251, 197, 138, 74}));
}

TEST(Schedule, GivesTheAuthorsTimestepsAtShift12OnBothGrids) {
  EXPECT_EQ(
      make_schedule(shift(12), 40, Grid::diffusers).timesteps,
      (Steps{999, 997, 995, 993, 990, 988, 985, 982, 979, 976, 973, 969, 965, 961, 957, 952, 947, 942, 936, 930,
             923, 915, 907, 898, 889, 878, 866, 852, 837, 820, 800, 777, 750, 719, 680, 633, 573, 496, 391, 242}));
  EXPECT_EQ(
      make_schedule(shift(12), 40, Grid::native).timesteps,
      (Steps{999, 997, 995, 993, 990, 988, 985, 982, 979, 976, 972, 969, 965, 961, 956, 952, 947, 941, 936, 929,
             922, 915, 907, 898, 888, 877, 865, 852, 837, 819, 799, 776, 749, 717, 678, 631, 571, 492, 386, 235}));
}

TEST(Schedule, GivesTheKarrasTimestepsWhateverTheShift) {
  SchedulerConfig config = shift(10);
  config.karras = true;
  EXPECT_EQ(make_schedule(config, 35, Grid::diffusers).timesteps,
            (Steps{995, 994, 993, 992, 991, 990, 988, 986, 984, 981, 978, 975, 970, 965, 958, 950, 941, 929,
                   915, 898, 877, 852, 822, 785, 742, 693, 636, 572, 504, 432, 361, 292, 229, 174, 128}));
}

TEST(Schedule, KeepsSigmasInFp32) {
  const Schedule schedule = make_schedule(shift(3), 40, Grid::diffusers);
  EXPECT_EQ(schedule.sigmas.size(), 41u);
  EXPECT_NEAR(schedule.sigmas[0], 0.9999989867, 1e-7);
  EXPECT_NEAR(schedule.sigmas[39], 0.0740767121, 1e-8);
  EXPECT_EQ(schedule.sigmas[40], 0.0f);
}

// Public reports of the wrong switch step: comparing a step index, or an unshifted ratio, with the boundary.
TEST(Schedule, SplitsTheExpertsByTimestep) {
  const auto high = [](int steps, double s, double ratio) {
    return high_noise_steps(make_schedule(shift(s), steps, Grid::diffusers), shift(s), ratio);
  };
  EXPECT_EQ(high(40, 12, 0.875), 26);
  EXPECT_EQ(high(40, 3, 0.875), 13);  // step 12 is exactly 875, which still is the high-noise expert's
  EXPECT_EQ(high(40, 5, 0.875), 17);
  EXPECT_EQ(high(40, 5, 0.9), 15);
  EXPECT_EQ(high(4, 5, 0.9), 2);
  EXPECT_EQ(high_noise_steps(make_schedule(shift(12), 40, Grid::native), shift(12), 0.875), 26);
}

TEST(Schedule, RefusesImpossibleNumbersOfSteps) {
  EXPECT_EQ(words([] { make_schedule(shift(3), 0, Grid::native); }), "steps: 0 asked for, 1 to 1000 are possible");
  EXPECT_EQ(words([] { make_schedule(shift(3), 1001, Grid::native); }),
            "steps: 1001 asked for, 1 to 1000 are possible");
}

// Equal noise levels make the solver divide by zero, which would show as values that are not finite.
TEST(Schedule, RefusesNoiseLevelsThatFp32CannotTellApart) {
  EXPECT_EQ(
      words([] { make_schedule(shift(1000), 1000, Grid::diffusers); }),
      "steps: 1000 with flow_shift 1000 are too fine for fp32: noise levels 1 and 2 are no longer apart; take fewer "
      "steps or a flow_shift nearer to 1");
  for (const Grid grid : {Grid::diffusers, Grid::native})
    for (const double value : {0.001, 1.0, 12.0, 100.0})
      for (const int steps : {1, 2, 40, 1000}) EXPECT_NO_THROW(make_schedule(shift(value), steps, grid)) << value;
}

TEST(SchedulerConfig, NamesWhatIsNotBuilt) {
  const auto read = [](const char* text) { return words([&] { read_scheduler_config(Json::parse(text), "s.json"); }); };
  EXPECT_EQ(read(R"({"_class_name":"DDIMScheduler"})"),
            "s.json: scheduler class \"DDIMScheduler\"; only UniPCMultistepScheduler is built");
  EXPECT_EQ(read(R"({"_class_name":"UniPCMultistepScheduler","solver_type":"bh1"})"),
            "s.json: solver_type is \"bh1\"; only \"bh2\" is built");
  EXPECT_EQ(read(R"({"_class_name":"UniPCMultistepScheduler","solver_order":3})"),
            "s.json: solver_order 3; 1 and 2 are built");
}

TEST(SchedulerConfig, NamesAValueThatMakesNoSense) {
  const auto read = [](const char* text) { return words([&] { read_scheduler_config(Json::parse(text), "s.json"); }); };
  EXPECT_EQ(read(R"({"_class_name":"UniPCMultistepScheduler","flow_shift":"x"})"),
            "s.json: \"flow_shift\" is \"x\", which is a string");
  EXPECT_EQ(read(R"({"_class_name":"UniPCMultistepScheduler","flow_shift":1e300})"),
            "s.json: flow_shift is 1e+300, 0.001 to 1000 makes sense");
}

// The scalar problem of the traces: v = 0.05 x + 0.3 sin(t / 1000) - 0.1.
double solve(double x, const Schedule& schedule) {
  double last = 0, m1 = 0, m2 = 0;
  const auto rows = unipc_rows(schedule, 2);
  for (int i = 0; i < schedule.steps(); ++i) {
    const StepRow& k = rows[i];
    const double v = 0.05 * x + 0.3 * std::sin(static_cast<double>(schedule.timesteps[i]) / 1000) - 0.1;
    const double m = x - k[0] * v;
    const double y = k[1] * x + k[2] * last + k[3] * m1 + k[4] * m2 + k[5] * m;
    x = k[6] * y + k[7] * m + k[8] * m1;
    last = y, m2 = m1, m1 = m;
  }
  return x;
}

TEST(UniPC, FollowsTheRecordedTraces) {
  EXPECT_NEAR(solve(1, make_schedule(shift(5), 4, Grid::diffusers)), 0.8589111608, 2e-6);
  EXPECT_NEAR(solve(-1, make_schedule(shift(3), 10, Grid::native)), -0.995152214121, 2e-6);
  EXPECT_NEAR(solve(1, make_schedule(shift(10), 7, Grid::native)), 0.860533575350, 2e-6);
  EXPECT_NEAR(solve(1, make_schedule(shift(5), 13, Grid::native)), 0.903302483290, 2e-6);
  SchedulerConfig karras;
  karras.karras = true;
  EXPECT_NEAR(solve(-1, make_schedule(karras, 4, Grid::diffusers)), -1.02950648, 2e-6);
}

TEST(UniPC, EndsOnThePredictionItself) {
  const auto rows = unipc_rows(make_schedule(shift(5), 4, Grid::diffusers), 2);
  EXPECT_EQ(rows[3][6], 0.0f);
  EXPECT_EQ(rows[3][7], 1.0f);
  EXPECT_EQ(rows[0][1], 1.0f);  // nothing to correct at the first step
}

TEST(UniPC, TakesASingleStep) {
  const auto rows = unipc_rows(make_schedule(shift(5), 1, Grid::diffusers), 2);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0], (StepRow{make_schedule(shift(5), 1, Grid::diffusers).sigmas[0], 1, 0, 0, 0, 0, 0, 1, 0}));
}

}  // namespace
}  // namespace zoetrope
