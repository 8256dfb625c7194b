// What this build is, has and lacks.
#pragma once
#include <string>

namespace zoetrope::cli {

std::string version_text();

}  // namespace zoetrope::cli
