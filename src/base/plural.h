// plural(1, "frame"): "1 frame"; plural(5, "frame"): "5 frames".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/cat.h"

namespace zoetrope {

inline std::string plural(int64_t n, std::string_view noun) { return cat(n, ' ', noun, n == 1 ? "" : "s"); }

}  // namespace zoetrope
