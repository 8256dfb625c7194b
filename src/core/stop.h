// Being asked to stop: one question, asked wherever work can be left, and one answer.
#pragma once
#include <stop_token>

#include "base/error.h"

namespace zoetrope {

// Error(cancelled) once a stop was asked for.
inline void check_stop(const std::stop_token& stop) {
  if (stop.stop_requested()) [[unlikely]]
    throw Error(Code::cancelled, "cancelled");
}

}  // namespace zoetrope
