#include "card.h"

#include <dlfcn.h>

#include "base/cat.h"
#include "eval/timing.h"

namespace zoetrope::bench {
namespace {

// Of nvml.h, which not every CUDA package brings: every function returns 0 where it worked.
constexpr int sm_clock = 1, gpu_temperature = 0;
using Start = int (*)();
using ByIndex = int (*)(unsigned, void**);
using Kind = int (*)(void*, int, unsigned*);
using Plain = int (*)(void*, unsigned*);

template <class F>
F find(void* library, const char* name) {
  return reinterpret_cast<F>(::dlsym(library, name));
}

}  // namespace

Card::Card() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
  if (!library_) return;
  const auto start = find<Start>(library_, "nvmlInit_v2");
  const auto by_index = find<ByIndex>(library_, "nvmlDeviceGetHandleByIndex_v2");
  if (!start || !by_index || start() != 0 || by_index(0, &device_) != 0) device_ = nullptr;
}

Card::~Card() {
  if (!library_) return;
  if (const auto stop = find<Start>(library_, "nvmlShutdown")) stop();
  ::dlclose(library_);
}

void Card::sample() {
  if (!device_) return;
  const auto clock = find<Kind>(library_, "nvmlDeviceGetClockInfo"),
             temperature = find<Kind>(library_, "nvmlDeviceGetTemperature");
  const auto power = find<Plain>(library_, "nvmlDeviceGetPowerUsage");
  unsigned mhz = 0, milliwatts = 0, celsius = 0;
  if (!clock || !temperature || !power || clock(device_, sm_clock, &mhz) != 0) return;
  if (power(device_, &milliwatts) != 0 || temperature(device_, gpu_temperature, &celsius) != 0) return;
  samples_.push_back({static_cast<double>(mhz), milliwatts / 1e3, static_cast<double>(celsius)});
}

std::string Card::text() {
  if (samples_.empty()) return "clock and power not known";
  const auto of = [&](double Sample::*member) {
    std::vector<double> values;
    for (const Sample& s : samples_) values.push_back(s.*member);
    return spread_of(values);
  };
  const Spread mhz = of(&Sample::mhz), watts = of(&Sample::watts), celsius = of(&Sample::celsius);
  samples_.clear();
  return cat(mhz.median, " MHz [", mhz.least, ", ", mhz.most, "], ", static_cast<int>(watts.median), " W, ",
             celsius.median, " C");
}

}  // namespace zoetrope::bench
