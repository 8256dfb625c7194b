// A fault that a process's use of the GPU does not survive.
#pragma once

namespace zoetrope {

void break_gpu(void* stream);  // a kernel that traps

}  // namespace zoetrope
