// What benchmarks share: repeated runs and their spread, and the ops of a piece of work by name with how near each
// comes to what the device can do.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "core/ctx.h"

namespace zoetrope {

struct Spread {
  double median = 0, least = 0, most = 0;
  size_t runs = 0;
};
Spread spread_of(std::vector<double> runs);  // at least one
OrderedJson as_json(const Spread& spread);

// Once to warm up, then `runs` times: seconds until the stream is done. `checked` follows each run, off the clock.
Spread timed(Ctx& c, int runs, const std::function<void()>& body, const std::function<void()>& checked = {});

// Every op of the body by name: issued, waited for, counted; without segments. A run to warm up before it.
OpCounts profiled(Ctx& c, const std::function<void()>& body);

// What a device can do at best; 0: not known.
struct Peak {
  double flops = 0, bytes = 0;  // a second; the former for products in bf16
};
Peak peak_of(const std::string& device);  // "NVIDIA H200"

// Ops and how near each comes to what the device can do, the longest first.
struct OpShare {
  std::string_view op;
  OpCount count;
  double share = 0;                    // of all seconds
  double flops = 0, bytes = 0;         // a second
  std::optional<double> of_peak = {};  // the larger of the two ratios
};
std::vector<OpShare> profile_of(const OpCounts& counts, const Peak& peak);
double seconds_of(const OpCounts& counts);
OrderedJson as_json(const std::vector<OpShare>& profile);  // [{op, calls, seconds, share, tflops, tbytes, of_peak}]

}  // namespace zoetrope
