#include "engine/ladder.h"

#include <algorithm>
#include <array>

#include "base/cat.h"
#include "base/rounding.h"
#include "comm/agree.h"
#include "pipeline/layout.h"

namespace zoetrope {
namespace {

// What a request needs on its lowest rung, one rank of `layout`.
int64_t least(const DryModel& m, const Request& request, DType dtype, DType vae_dtype, const Layout& layout = {}) {
  const Cost cost = dry_run({m.source, m.traits, dtype, vae_dtype}, request, {layout, 0}, rungs(m.source).back());
  return most_at_once(cost.stages) + cost.fixed;
}

// The most frames of the request's size, 0: not even one.
int frames_that_fit(const DryModel& m, Request request, int64_t available) {
  const auto fits = [&](int k) {
    request.num_frames = 4 * k + 1;
    return least(m, request, m.dtype, m.vae_dtype) <= available;
  };
  int low = -1, high = request.num_frames / 4;  // fits, does not fit
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low < 0 ? 0 : 4 * low + 1;
}

// Of the same shape, more or less.
std::string size_that_fits(const DryModel& m, const Request& asked, int64_t available) {
  for (const double part : {0.75, 2.0 / 3, 0.5, 1.0 / 3, 0.25, 0.125}) {
    Request request = asked;
    const auto scaled = [&](int pixels) { return static_cast<int>(pixels * part / 16) * 16; };
    request.width = scaled(asked.width), request.height = scaled(asked.height);
    if (request.width < 16 || request.height < 16) break;
    if (least(m, request, m.dtype, m.vae_dtype) <= available) return cat(request.width, 'x', request.height);
  }
  return {};
}

std::string refusal(const DryModel& m, const Request& request, const Shortage& lack, bool alone) {
  const Residency lowest = rungs(m.source).back();
  const std::string fit = alone ? what_would_fit(m, request, lack.available) : "";
  return cat("memory: this request needs ", words_of(lack), " (", name(lack.stage), ", ", words_of(lowest), "); ",
             fit.empty() ? "a smaller size, fewer frames or --dtype bf16 needs less" : fit);
}

}  // namespace

std::string what_would_fit(const DryModel& m, const Request& request, int64_t available) {
  std::vector<std::string> ways;
  if (m.dtype == DType::f32 && least(m, request, DType::bf16, DType::bf16) <= available)
    ways.emplace_back("--dtype bf16");
  if (const int frames = frames_that_fit(m, request, available)) ways.push_back(cat("--num-frames ", frames));
  if (const std::string size = size_that_fits(m, request, available); !size.empty())
    ways.push_back(cat("--size ", size));
  for (const int ranks : {2, 4, 8}) {
    const Layout layout{default_mesh(ranks, request.guidance_scale, mesh_heads(m.source)), {}};
    if (m.traits.device != DeviceKind::cpu || !objection(layout.shape, mesh_heads(m.source)).empty()) continue;
    if (least(m, request, m.dtype, m.vae_dtype, layout) > available) continue;
    ways.push_back(cat(ranks, " ranks on as many machines"));
    break;
  }
  std::string text;
  for (size_t i = 0; i < ways.size(); ++i) text += cat(i == 0 ? "" : i + 1 < ways.size() ? ", " : " or ", ways[i]);
  return text.empty() ? text : text + " would fit";
}

Cost with_room(Cost cost, const MemoryNeed& room, size_t page_grain) {
  const auto pages = [&](int64_t bytes) {
    return static_cast<int64_t>(round_up(static_cast<size_t>(bytes), page_grain));
  };
  const auto raise = [&](MemoryNeed& need) {
    need.request = std::max(need.request, room.request), need.scratch = std::max(need.scratch, room.scratch);
  };
  raise(cost.memory);
  for (StageMemory& stage : cost.stages) {
    raise(stage.peaks);
    stage.pages = pages(stage.peaks.request) + pages(stage.peaks.scratch) + pages(stage.peaks.exchange);
  }
  return cost;
}

Cost choose_rung(Ctx& c, Comm& world, DryRuns& runs, const Request& request, const MemoryNow& now,
                 const MemoryNeed& room) {
  std::optional<Shortage> lack;
  for (const Residency residency : rungs(runs.model().source)) {
    const Cost* cost = nullptr;
    together(c, world, [&] { cost = &runs.of(request, residency); });
    if (residency == Residency::all && room.total() > 0) {
      Cost roomy = with_room(*cost, room, c.traits().page_grain);
      if (!shortage(c, world, roomy, now)) return roomy;
    }
    lack = shortage(c, world, *cost, now);
    if (!lack) return *cost;
  }
  throw AgreedError(Code::out_of_memory, refusal(runs.model(), request, *lack, world.size() == 1));
}

}  // namespace zoetrope
