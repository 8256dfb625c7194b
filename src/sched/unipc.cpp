#include "sched/unipc.h"

#include <algorithm>
#include <cmath>

#include "core/step_rows.h"

namespace zoetrope {
namespace {

// Per sigma, in fp32 as the reference evaluates them: at sigma = 1 - 1e-6 the fp64 value differs in the third digit.
struct Point {
  double sigma, alpha, lambda;

  explicit Point(float s) : sigma(s), alpha(1.0f - s), lambda(s > 0 ? std::log(1.0f - s) - std::log(s) : INFINITY) {}
};

// last, m1, m2, m of the corrector: x at `to`, from the corrected sample at `from` and the prediction m made at `to`.
void corrector(const Point& before, const Point& from, const Point& to, int order, StepRow& row) {
  const double h = to.lambda - from.lambda, b = std::expm1(-h), ab = to.alpha * b;
  double rho1 = 0, rho2 = 0.5, r = 1;
  if (order == 2) {
    r = (before.lambda - from.lambda) / h;
    const double phi2 = b / -h - 1, phi3 = phi2 / -h - 0.5;
    const double b1 = phi2 / b, b2 = 2 * phi3 / b;
    rho1 = (b2 - b1) / (r - 1);
    rho2 = b1 - rho1;
  }
  row[1] = 0;
  row[2] = static_cast<float>(to.sigma / from.sigma);
  row[3] = static_cast<float>(-ab * (1 - rho1 / r - rho2));
  row[4] = static_cast<float>(-ab * rho1 / r);
  row[5] = static_cast<float>(-ab * rho2);
}

void predictor(const Point& before, const Point& from, const Point& to, int order, StepRow& row) {
  if (to.sigma == 0) {  // the last step lands on x0 itself; the formula would be infinity times zero
    row[6] = 0, row[7] = 1, row[8] = 0;
    return;
  }
  const double h = to.lambda - from.lambda, ab = to.alpha * std::expm1(-h);
  const double half_over_r = order == 2 ? 0.5 * h / (before.lambda - from.lambda) : 0;
  row[6] = static_cast<float>(to.sigma / from.sigma);
  row[7] = static_cast<float>(-ab * (1 - half_over_r));
  row[8] = static_cast<float>(-ab * half_over_r);
}

}  // namespace

std::vector<StepRow> unipc_rows(const Schedule& schedule, int order) {
  const int steps = schedule.steps();
  std::vector<Point> points(schedule.sigmas.begin(), schedule.sigmas.end());
  std::vector<StepRow> rows(static_cast<size_t>(steps));
  int previous = 1;  // order of the predictor before
  for (int i = 0; i < steps; ++i) {
    StepRow& row = rows[i];
    row.fill(0);
    row[0] = schedule.sigmas[i];
    row[1] = 1;
    if (i > 0) corrector(points[std::max(i - 2, 0)], points[i - 1], points[i], previous, row);
    const int now = std::min({order, steps - i, i + 1});
    predictor(points[std::max(i - 1, 0)], points[i], points[i + 1], now, row);
    previous = now;
  }
  return rows;
}

UniPC::UniPC(Ctx& c, const Tensor& noise, const Schedule& schedule, int order) {
  for (Tensor* part : {&state_.x, &state_.last, &state_.m1, &state_.m2})
    *part = c.empty(noise.shape(), DType::f32, c.request());
  copy(c, noise, state_.x);
  for (const Tensor& part : {state_.last, state_.m1, state_.m2}) fill(c, part, 0);  // multiplied by 0 at first
  row_ = c.empty({multistep_coefficients}, DType::f32, c.request());
  bad_ = c.empty({1}, DType::f32, c.request());
  fill(c, bad_, 0);
  const auto rows = unipc_rows(schedule, order);
  rows_ = step_rows(c, {static_cast<int64_t>(rows.size()), multistep_coefficients}, DType::f32);
  c.upload(rows.data(), rows_);
}

void UniPC::begin(Ctx& c, int i) const { copy(c, rows_.row(i), row_); }

void UniPC::step(Ctx& c, const Predictions& predictions) const { guided_multistep(c, state_, predictions, row_, bad_); }

float UniPC::bad(Ctx& c) const { return c.fetch<float>(bad_, 0)[0]; }

}  // namespace zoetrope
