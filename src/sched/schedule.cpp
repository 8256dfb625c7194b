#include "sched/schedule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace zoetrope {
namespace {

double shifted(double u, double shift) { return shift * u / (1 + (shift - 1) * u); }

std::vector<double> flow_sigmas(const SchedulerConfig& config, int steps, Grid grid) {
  // In the order of operations of numpy's linspace, since a timestep is truncated: another order gives other timesteps
  // at some (shift, steps). The authors start from 0.999 as an fp32 number.
  const double first = grid == Grid::diffusers ? 1 : 0.999f, last = grid == Grid::diffusers ? 0.001 : 0;
  const double step = (last - first) / steps;
  std::vector<double> sigmas;
  for (int i = 0; i < steps; ++i) sigmas.push_back(shifted(i * step + first, config.flow_shift));
  if (std::fabs(sigmas[0] - 1) < 1e-6) sigmas[0] -= 1e-6;  // lambda of 1 would be infinite
  return sigmas;
}

// Karras et al. (arXiv 2206.00364), rho 7, on noise-to-signal ratios e; sigma = e / (1 + e).
std::vector<double> karras_sigmas(const SchedulerConfig& config, int steps) {
  const double high = std::pow(config.sigma_max, 1.0 / 7), low = std::pow(config.sigma_min, 1.0 / 7);
  std::vector<double> sigmas;
  for (int i = 0; i < steps; ++i) {
    const double part = steps == 1 ? 0 : static_cast<double>(i) / (steps - 1);
    const double e = std::pow(high + part * (low - high), 7);
    sigmas.push_back(e / (e + 1));
  }
  return sigmas;
}

// A key whose value changes the result must have the value that we implement.
template <class T>
void require_value(const Json& json, const char* key, const T& wanted, std::string_view where) {
  const T found = value_or(json, key, wanted);
  if (found != wanted)
    fail(Code::unsupported, where, ": ", key, " is ", short_dump(json.at(key)), "; only ", Json(wanted).dump(),
         " is built");
}

}  // namespace

Grid parse_grid(std::string_view text) {
  if (text == "diffusers") return Grid::diffusers;
  if (text == "native") return Grid::native;
  fail(Code::invalid, "schedule \"", text, "\" is not known; use diffusers or native");
}

const char* name(Grid grid) { return grid == Grid::diffusers ? "diffusers" : "native"; }

namespace {

SchedulerConfig parse_scheduler_config(const Json& json, std::string_view where) {
  require(json.is_object(), where, ": not a JSON object");
  const std::string kind = value_or(json, "_class_name", std::string());
  if (kind != "UniPCMultistepScheduler")
    fail(Code::unsupported, where, ": scheduler class \"", kind, "\"; only UniPCMultistepScheduler is built");
  require_value(json, "prediction_type", std::string("flow_prediction"), where);
  require_value(json, "use_flow_sigmas", true, where);
  require_value(json, "solver_type", std::string("bh2"), where);
  require_value(json, "predict_x0", true, where);
  require_value(json, "lower_order_final", true, where);
  require_value(json, "thresholding", false, where);
  require_value(json, "use_exponential_sigmas", false, where);
  require_value(json, "use_beta_sigmas", false, where);
  require_value(json, "use_dynamic_shifting", false, where);
  require_value(json, "final_sigmas_type", std::string("zero"), where);
  require_value(json, "num_train_timesteps", 1000, where);
  if (const auto off = json.find("disable_corrector"); off != json.end() && !off->empty())
    fail(Code::unsupported, where, ": disable_corrector is ", short_dump(*off), "; only [] is built");

  SchedulerConfig config;
  config.flow_shift = value_or(json, "flow_shift", 1.0);
  config.karras = value_or(json, "use_karras_sigmas", false);
  config.sigma_min = value_or(json, "sigma_min", config.sigma_min);
  config.sigma_max = value_or(json, "sigma_max", config.sigma_max);
  config.solver_order = value_or(json, "solver_order", 2);
  require(config.flow_shift >= 1e-3 && config.flow_shift <= 1000, where, ": flow_shift is ", config.flow_shift,
          ", 0.001 to 1000 makes sense");
  require(config.sigma_min > 0 && config.sigma_max > config.sigma_min, where, ": sigma_min ", config.sigma_min,
          " and sigma_max ", config.sigma_max, " are no range");
  if (config.solver_order != 1 && config.solver_order != 2)
    fail(Code::unsupported, where, ": solver_order ", config.solver_order, "; 1 and 2 are built");
  return config;
}

}  // namespace

SchedulerConfig read_scheduler_config(const Json& json, std::string_view where) {
  return about(where, [&] { return parse_scheduler_config(json, where); });
}

Schedule make_schedule(const SchedulerConfig& config, int steps, Grid grid) {
  require(steps >= 1 && steps <= config.train_timesteps, "steps: ", steps, " asked for, 1 to ", config.train_timesteps,
          " are possible");
  const auto sigmas = config.karras ? karras_sigmas(config, steps) : flow_sigmas(config, steps, grid);
  Schedule schedule;
  for (const double sigma : sigmas) {
    schedule.timesteps.push_back(static_cast<int64_t>(sigma * config.train_timesteps));  // truncated, from fp64
    schedule.sigmas.push_back(static_cast<float>(sigma));
  }
  schedule.sigmas.push_back(0.0f);
  // The solver divides by the distance of two noise levels.
  const auto same = std::ranges::adjacent_find(schedule.sigmas, std::ranges::less_equal());
  require(same == schedule.sigmas.end(), "steps: ", steps, " with flow_shift ", config.flow_shift,
          " are too fine for fp32: noise levels ", same - schedule.sigmas.begin() + 1, " and ",
          same - schedule.sigmas.begin() + 2, " are no longer apart; take fewer steps or a flow_shift nearer to 1");
  return schedule;
}

int high_noise_steps(const Schedule& schedule, const SchedulerConfig& config, double boundary_ratio) {
  const double boundary = boundary_ratio * config.train_timesteps;
  return static_cast<int>(
      std::ranges::count_if(schedule.timesteps, [&](int64_t t) { return static_cast<double>(t) >= boundary; }));
}

}  // namespace zoetrope
