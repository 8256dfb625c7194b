#include "ops/cuda/plan_choice.h"

#include <algorithm>

namespace zoetrope::cuda {
namespace {

constexpr int64_t no_sums = 1024;  // bytes of a workspace in which no tile's partial sums can lie

bool has(const std::string& name, std::string_view part) { return name.find(part) != std::string::npos; }
bool knob(const std::string& name, const char* any, const char* wanted) { return !has(name, any) || has(name, wanted); }

bool is_slow(const std::string& name) {
  return name.starts_with("eng0_") || name == "eng0" || name.starts_with("eng28");
}
bool of_tile(const std::string& name, const std::string& tile) {
  return !is_slow(name) && knob(name, "k23=", "k23=0") && has(name, tile);
}
bool whole_sum(const std::string& name, const std::string& tile) {
  return of_tile(name, tile) && knob(name, "k25=", "k25=1");
}

// "k2=0_k13=1" names a plan of any engine.
bool names(const ConvolutionPlan& row, const std::string& offered) {
  return offered == row.plan || (row.plan.starts_with('k') && offered.ends_with("_" + row.plan));
}

std::string tile_of(const std::string& plan) {
  return has(plan, "k13=0") ? "k13=0" : has(plan, "k13=1") ? "k13=1" : "";
}

}  // namespace

PlanChoice::PlanChoice(const ConvolutionPlan& convolution, const TuningTable* table) : tiles_{"k13=1", "k13=0"} {
  const std::vector<const ConvolutionPlan*> everywhere = untuned().all(convolution);
  if (!everywhere.empty()) tiles_ = {tile_of(everywhere[0]->plan)};
  if (table) rows_ = table->all(convolution);
  if (!rows_.empty()) first_ = rows_[0];
  rows_.insert(rows_.end(), everywhere.begin(), everywhere.end());
}

std::vector<size_t> PlanChoice::order(const std::vector<std::string>& offered, const std::string& tile) const {
  std::vector<size_t> order;
  const auto add = [&](auto wanted) {
    for (size_t i = 0; i < offered.size(); ++i)
      if (wanted(offered[i]) && std::ranges::find(order, i) == order.end()) order.push_back(i);
  };
  for (const ConvolutionPlan* row : rows_)
    add([&](const std::string& name) { return names(*row, name) && of_tile(name, tile); });
  add([&](const std::string& name) { return whole_sum(name, tile); });
  return order;
}

std::vector<size_t> PlanChoice::competitors(const std::vector<std::string>& offered, const std::string& tile) {
  std::vector<size_t> all;
  for (size_t i = 0; i < offered.size(); ++i)
    if (of_tile(offered[i], tile)) all.push_back(i);
  return all;
}

int64_t PlanChoice::most_workspace(const std::string& name, int64_t workspace) {
  return has(name, "k25=0") ? no_sums : workspace;
}

const ConvolutionPlan* PlanChoice::missed(const std::string& name) const {
  return first_ && !names(*first_, name) ? first_ : nullptr;
}

}  // namespace zoetrope::cuda
