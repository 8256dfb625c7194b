// What the card itself says about its clock and power, where NVML can be loaded; it is asked for nothing else.
#pragma once
#include <string>
#include <vector>

namespace zoetrope::bench {

class Card {
 public:
  Card();
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  void sample();       // now, while the device works
  std::string text();  // of the samples, which go: "1755 MHz [1740, 1755], 520 W, 48 C", or that nothing could be asked

 private:
  struct Sample {
    double mhz, watts, celsius;
  };
  void* library_ = nullptr;
  void* device_ = nullptr;
  std::vector<Sample> samples_;
};

}  // namespace zoetrope::bench
