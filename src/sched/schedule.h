// Sigmas and timesteps of a flow model: x_sigma = (1 - sigma) x0 + sigma noise, sigma from about 1 down to 0.
// Sources: the UniPC paper (arXiv 2302.04867) for the solver; diffusers' and the Wan authors' grids for the schedules.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace zoetrope {

// Both leave out the end point: diffusers steps u from 1 to 0.001, the authors' native grid from 0.999 to 0.
enum class Grid : uint8_t { diffusers, native };
Grid parse_grid(std::string_view text);
const char* name(Grid grid);

// What of a folder's scheduler_config.json matters to a flow model.
struct SchedulerConfig {
  double flow_shift = 1.0;
  bool karras = false;  // sigmas from the Karras formula; flow_shift is then not read
  double sigma_min = 0.147, sigma_max = 200.0;
  int train_timesteps = 1000;
  int solver_order = 2;
};

// Refuses, naming the key, every value that asks for another solver than UniPC of order 1 or 2 in x0 form.
SchedulerConfig read_scheduler_config(const Json& json, std::string_view where);

struct Schedule {
  std::vector<int64_t> timesteps;  // [N], what the network is given: trunc(1000 sigma)
  std::vector<float> sigmas;       // [N + 1], the last is 0

  int steps() const { return static_cast<int>(timesteps.size()); }
};

Schedule make_schedule(const SchedulerConfig& config, int steps, Grid grid);

// How many leading steps the high-noise expert takes: those with timestep >= boundary_ratio * train_timesteps.
int high_noise_steps(const Schedule& schedule, const SchedulerConfig& config, double boundary_ratio);

}  // namespace zoetrope
