#include "eval/timing.h"

#include <algorithm>
#include <utility>

#include "base/deadline.h"

namespace zoetrope {

Spread spread_of(std::vector<double> runs) {
  std::ranges::sort(runs);
  return {runs[runs.size() / 2], runs.front(), runs.back(), runs.size()};
}

OrderedJson as_json(const Spread& s) {
  return {{"median", s.median}, {"least", s.least}, {"most", s.most}, {"runs", s.runs}};
}

Spread timed(Ctx& c, int runs, const std::function<void()>& body, const std::function<void()>& checked) {
  std::vector<double> seconds;
  for (int run = -1; run < runs; ++run) {
    c.check_stop();
    c.stream().sync();
    const Stopwatch watch;
    body();
    c.stream().sync();
    if (run >= 0) seconds.push_back(watch.seconds());
    if (checked) checked();
  }
  return spread_of(std::move(seconds));
}

OpCounts profiled(Ctx& c, const std::function<void()>& body) {
  Rank& rank = c.rank();
  std::unique_ptr<Segments> segments = std::move(rank.segments);
  rank.profile = true;
  body();
  rank.counts.clear();
  body();
  rank.profile = false;
  rank.segments = std::move(segments);
  return rank.counts;
}

// NVIDIA's data sheets, dense bf16 products.
Peak peak_of(const std::string& device) {
  if (device.find("H200") != std::string::npos) return {989e12, 4.8e12};
  if (device.find("H100") != std::string::npos) return {989e12, 3.35e12};
  if (device.find("A100") != std::string::npos) return {312e12, 2.0e12};
  return {};
}

double seconds_of(const OpCounts& counts) {
  double all = 0;
  for (const auto& [name, count] : counts) all += count.seconds;
  return all;
}

std::vector<OpShare> profile_of(const OpCounts& counts, const Peak& peak) {
  const double all = seconds_of(counts);
  std::vector<OpShare> ops;
  for (const auto& [name, count] : counts) {
    OpShare one{name, count, count.seconds / all, count.flops / count.seconds,
                static_cast<double>(count.bytes) / count.seconds};
    if (peak.flops > 0) one.of_peak = std::max(one.flops / peak.flops, one.bytes / peak.bytes);
    ops.push_back(one);
  }
  std::ranges::sort(ops, [](const auto& a, const auto& b) { return a.count.seconds > b.count.seconds; });
  return ops;
}

OrderedJson as_json(const std::vector<OpShare>& profile) {
  OrderedJson rows = OrderedJson::array();
  for (const OpShare& one : profile)
    rows.push_back({{"op", one.op},
                    {"calls", one.count.calls},
                    {"seconds", one.count.seconds},
                    {"share", one.share},
                    {"tflops", one.flops / 1e12},
                    {"tbytes", one.bytes / 1e12},
                    {"of_peak", one.of_peak ? OrderedJson(*one.of_peak) : OrderedJson(nullptr)}});
  return rows;
}

}  // namespace zoetrope
