// cat("size ", 3, " of ", x): any streamable values joined into one string. Stands in for <format>, absent from g++ 12.
#pragma once
#include <sstream>
#include <string>

namespace zoetrope {

template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace zoetrope
