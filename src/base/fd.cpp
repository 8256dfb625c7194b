#include "base/fd.h"

#include <unistd.h>

namespace zoetrope {

void Fd::reset() {
  if (fd_ >= 0) ::close(release());
}

}  // namespace zoetrope
