#include "config/resources.h"

#include "base/error.h"

namespace zoetrope {

std::string_view resource(std::string_view name) {
  for (const Resource& entry : resources())
    if (entry.name == name) return entry.bytes;
  fail(Code::invalid, "resource \"", name, "\" is not part of this program");
}

}  // namespace zoetrope
