// The CPU back end: oneDNN behind gemm, conv and the tiles of attention, flat loops elsewhere. Algorithms depend on
// (op, N, K, type) and never on the number of rows, so a row's bits do not depend on how rows are sharded.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace zoetrope {

std::unique_ptr<Backend> make_cpu_backend();
Traits cpu_traits();  // what a dry context needs to imitate it

// The oneDNN implementations that a CPU back end has used so far ("16x64x512: brg:avx512_core"), for doctor and tests.
std::vector<std::string> cpu_implementations(const Backend& backend);

}  // namespace zoetrope
