// A decoded clip on the host.
#pragma once
#include <cstdint>
#include <vector>

namespace zoetrope {

struct Video {
  int frames = 0, height = 0, width = 0;
  double fps = 0;            // 0: not known
  std::vector<uint8_t> rgb;  // [frames, height, width, 3]
};

}  // namespace zoetrope
