#include "base/error.h"

namespace zoetrope {

const char* name(Code code) {
  switch (code) {
    case Code::invalid:
      return "invalid";
    case Code::unsupported:
      return "unsupported";
    case Code::busy:
      return "busy";
    case Code::out_of_memory:
      return "out_of_memory";
    case Code::comm:
      return "comm";
    case Code::device:
      return "device";
    case Code::cancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace zoetrope
