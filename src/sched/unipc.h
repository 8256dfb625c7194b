// UniPC, multistep, order 1 or 2, bh2, x0 form (arXiv 2302.04867, algorithms 5 to 8), as a table: since every update is
// linear in the history, step i is one row of coefficients for the op `guided_multistep`. The table is computed on
// the host once; the device work of a step is one in-place op, which also rotates the history.
#pragma once
#include <array>
#include <vector>

#include "ops/ops.h"
#include "sched/schedule.h"

namespace zoetrope {

using StepRow = std::array<float, multistep_coefficients>;

std::vector<StepRow> unipc_rows(const Schedule& schedule, int order);

// Latents and history of one request, fp32, in c.request().
class UniPC {
 public:
  UniPC(Ctx& c, const Tensor& noise, const Schedule& schedule, int order);  // noise is copied

  const Tensor& latents() const { return state_.x; }
  // A step is both, in this order. `begin` puts what changes from step to step in its place; `step` then finds
  // everything where it was in the step before, so that a recorded segment may hold it.
  void begin(Ctx& c, int i) const;
  void step(Ctx& c, const Predictions& predictions) const;
  // Waits for the steps that were issued: how many values of the velocities so far were not finite.
  float bad(Ctx& c) const;

 private:
  MultistepState state_;
  Tensor row_;   // [multistep_coefficients], this step's
  Tensor bad_;   // [1]
  Tensor rows_;  // [steps, multistep_coefficients]
};

}  // namespace zoetrope
