// The version of oneDNN that is loaded, "2.6.3".
#pragma once
#include <string>

namespace zoetrope {

std::string onednn_version();

}  // namespace zoetrope
