#include "nn/rope.h"

#include <cmath>

#include "base/error.h"

namespace zoetrope::nn {

std::vector<float> rope_table(int64_t extent, int64_t width, double theta) {
  std::vector<float> table;
  table.reserve(static_cast<size_t>(extent * width));
  for (int64_t position = 0; position < extent; ++position)
    for (int64_t i = 0; i < width / 2; ++i) {
      const double rate = 1.0 / std::pow(theta, static_cast<double>(2 * i) / static_cast<double>(width));
      const double angle = static_cast<double>(position) * rate;
      table.push_back(static_cast<float>(std::cos(angle)));
      table.push_back(static_cast<float>(std::sin(angle)));
    }
  return table;
}

void RopeTables::load(Loader& from, const std::array<int64_t, 3>& widths, int64_t extent, double theta) {
  for (size_t i = 0; i < widths.size(); ++i)
    from.constant(axis_[i], {extent, widths[i] / 2, 2}, rope_table(extent, widths[i], theta));
}

Rope RopeTables::grid(int64_t frames, int64_t rows, int64_t columns) const {
  Rope rope;
  const int64_t extents[3] = {frames, rows, columns};
  for (size_t i = 0; i < 3; ++i) {
    require(extents[i] <= axis_[i].dim(0), "rope: a grid of ", frames, "x", rows, "x", columns,
            " tokens has an axis longer than ", axis_[i].dim(0), ", the most this model knows");
    rope.axis[i] = axis_[i].rows(0, extents[i]);
  }
  return rope;
}

}  // namespace zoetrope::nn
