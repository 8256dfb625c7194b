// Schedules and trajectories as diffusers computes them; v = 0.05 x + 0.3 sin(t / 1000) - 0.1 stands in for the model.
#include <gtest/gtest.h>

#include <cmath>

#include "models/golden.h"
#include "sched/unipc.h"
#include "support/device_ctx.h"

namespace zoetrope {
namespace {

struct Case {
  const char* name;
  double shift;
  Grid grid;
};
void PrintTo(const Case& kind, std::ostream* out) { *out << kind.name; }

class UniPCGolden : public testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(UniPCGolden, MatchesTheRecordedTrajectory) {
  const auto& [kind, steps] = GetParam();
  const Golden golden(cat("sched/", kind.name, "_", steps));
  SchedulerConfig config;
  config.flow_shift = kind.shift;
  const Schedule schedule = make_schedule(config, steps, kind.grid);
  EXPECT_EQ(schedule.timesteps, golden.values<int64_t>("timesteps"));
  const auto sigmas = golden.values("sigmas");
  EXPECT_EQ(schedule.sigmas, sigmas);

  DeviceCtx dev;
  const auto expected = golden.values("x");  // [steps + 1, 64]
  const int64_t n = golden.shape("x").dim(1);
  double worst = 0;
  UniPC solver(dev, dev.tensor({n}, std::span(expected).first(n)), schedule, 2);
  for (int i = 0; i < steps; ++i) {
    std::vector<float> v;
    const auto drift = static_cast<float>(0.3 * std::sin(static_cast<double>(schedule.timesteps[i]) / 1000) - 0.1);
    for (const float x : values_of(solver.latents())) v.push_back(0.05f * x + drift);
    solver.begin(dev, i);
    solver.step(dev, {dev.tensor({n}, v), {}, {}});
    const auto from = expected.begin() + (i + 1) * n;
    worst = std::max(worst, relative_error(values_of(solver.latents()), std::vector<float>(from, from + n)));
  }
  expect_fidelity(golden, "sample, worst step", golden.shape("x"), worst, 2e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, UniPCGolden,
    testing::Combine(testing::Values(Case{"folder", 3, Grid::diffusers}, Case{"shift12", 12, Grid::diffusers},
                                     Case{"native12", 12, Grid::native}),
                     testing::Values(1, 2, 3, 4, 27, 40, 50)),
    [](const auto& info) { return cat(std::get<0>(info.param).name, "_", std::get<1>(info.param)); });

TEST(KarrasGolden, MatchesTheRecordedTables) {
  for (const int steps : {4, 35, 50}) {
    const Golden golden(cat("sched/karras_", steps));
    SchedulerConfig config;
    config.karras = true;
    EXPECT_EQ(make_schedule(config, steps, Grid::diffusers).timesteps, golden.values<int64_t>("timesteps"));
  }
}

}  // namespace
}  // namespace zoetrope
