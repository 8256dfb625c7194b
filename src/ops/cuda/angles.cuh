// The angles of rotary embedding.
#pragma once
#include "ops/cuda/device.cuh"
#include "ops/cuda/kernels.h"

namespace zoetrope::cuda {

// The three axes' tables, and where a token stands in them.
struct Angles {
  const float2* table[3] = {};
  int pairs[3] = {};
  uint32_t extent[3] = {};
  int64_t offset = 0;

  struct Place {
    const float2* row[3];
    bool inside;
  };

  Angles() = default;
  explicit Angles(const RopeGrid& grid) : offset(grid.offset) {
    for (int a = 0; a < 3; ++a) {
      table[a] = pointer<const float2>(grid.axis[a]);
      extent[a] = static_cast<uint32_t>(grid.axis[a].dim(0)), pairs[a] = static_cast<int>(grid.axis[a].dim(1));
    }
  }

  // A grid has less than 2^31 places, and places past it are not looked up.
  __device__ Place find(int64_t token) const {
    const uint32_t h = extent[1], w = extent[2];
    Place p{{}, offset + token < static_cast<int64_t>(extent[0]) * h * w};
    const auto place = static_cast<uint32_t>(offset + token);
    const uint32_t line = place / w, at[3] = {line / h, line % h, place % w};
    for (int a = 0; a < 3; ++a) p.row[a] = table[a] + static_cast<int64_t>(at[a]) * pairs[a];
    return p;
  }
  // (cos, sin) of a pair; the pairs of the axes follow each other.
  __device__ float2 at(const Place& place, int pair) const {
    if (pair < pairs[0]) return place.row[0][pair];
    pair -= pairs[0];
    return pair < pairs[1] ? place.row[1][pair] : place.row[2][pair - pairs[1]];
  }
};

__device__ inline void turn(float& a, float& b, float2 angle) {
  const float first = a * angle.x - b * angle.y, second = a * angle.y + b * angle.x;
  a = first, b = second;
}

}  // namespace zoetrope::cuda
