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

OrderedJson profile_json(const OpCounts& counts, const Peak& peak) {
  std::vector<std::pair<std::string_view, OpCount>> ops(counts.begin(), counts.end());
  std::ranges::sort(ops, [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  double all = 0;
  for (const auto& [name, count] : ops) all += count.seconds;
  OrderedJson rows = OrderedJson::array();
  for (const auto& [name, count] : ops) {
    const double flops = count.flops / count.seconds, bytes = static_cast<double>(count.bytes) / count.seconds;
    OrderedJson row{{"op", name},
                    {"calls", count.calls},
                    {"seconds", count.seconds},
                    {"share", count.seconds / all},
                    {"tflops", flops / 1e12},
                    {"tbytes", bytes / 1e12},
                    {"of_peak", nullptr}};
    if (peak.flops > 0) row["of_peak"] = std::max(flops / peak.flops, bytes / peak.bytes);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace zoetrope
