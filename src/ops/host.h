// Memory of the host that the streams of a context reach: `copy` to or from a Tensor over it happens in stream order,
// beside what the host does meanwhile (pinned, where a device needs that).
#pragma once
#include <cstddef>
#include <memory>

#include "core/ctx.h"

namespace zoetrope {

std::shared_ptr<std::byte> host_memory(Ctx& c, size_t bytes);  // not in a dry context

}  // namespace zoetrope
