// The three rows (or columns) of a kernel over an enlarged picture, as they fall on the small one. Around a corner lie
// two small rows, 0 and 1; the enlarged row `side` beside it reads each of them with rows [first, end) of the kernel.
#pragma once

namespace zoetrope {

struct Corner {
  int first, end;

  Corner(int side, int row) : first(row == 0 ? 0 : 2 - side), end(row == 0 ? 2 - side : 3) {}
};

}  // namespace zoetrope
