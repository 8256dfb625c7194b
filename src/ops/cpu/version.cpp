#include "ops/cpu/version.h"

#include <dnnl.h>

#include "base/cat.h"

namespace zoetrope {

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return cat(v->major, '.', v->minor, '.', v->patch);
}

}  // namespace zoetrope
