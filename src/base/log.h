// Log lines on stderr: "zoetrope: warning: ...". Results never go here; progress has its own channel.
#pragma once
#include <string_view>

#include "base/cat.h"

namespace zoetrope::log {

enum class Level { debug, info, warning, error, off };

void set_level(Level level);
void write(Level level, std::string_view line);

template <class... Parts>
void debug(const Parts&... parts) {
  write(Level::debug, cat(parts...));
}
template <class... Parts>
void info(const Parts&... parts) {
  write(Level::info, cat(parts...));
}
template <class... Parts>
void warning(const Parts&... parts) {
  write(Level::warning, cat(parts...));
}

}  // namespace zoetrope::log
