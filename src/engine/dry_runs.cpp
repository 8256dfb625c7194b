#include "engine/dry_runs.h"

#include <algorithm>
#include <utility>

#include "pipeline/facts.h"

namespace zoetrope {
namespace {

// The request without what no dry run looks at. What is not named here counts: a field that is new makes another shape.
Request shape_of(Request request) {
  for (std::string* text : {&request.prompt, &request.negative_prompt, &request.noise, &request.latents}) text->clear();
  request.warnings.clear();
  request.seed = 0;
  request.fps = 0;
  request.guidance_scale = request.guided() ? 2 : 1;
  request.guidance_scale_2 = 0;
  return request;
}

}  // namespace

const Cost& DryRuns::of(const Request& request, Residency residency) {
  Shape shape{shape_of(request), residency};
  const auto found = std::ranges::find(last_, shape, &std::pair<Shape, Cost>::first);
  if (found != last_.end()) {
    std::rotate(last_.begin(), found, found + 1);
    return last_.front().second;
  }
  Cost cost = dry_run(model_, request, at_, residency);
  ++made_;
  last_.emplace_front(std::move(shape), std::move(cost));
  if (last_.size() > kept) last_.pop_back();
  return last_.front().second;
}

}  // namespace zoetrope
