// How many ranks there may be: of an axis, and of all together.
#pragma once

namespace zoetrope {

constexpr int most_ranks = 1024;

}  // namespace zoetrope
