// Stands in for the CUDA back end in a build without it.
#include "base/error.h"
#include "ops/cuda/backend.h"

namespace zoetrope {
namespace {

[[noreturn]] void refuse() {
  fail(Code::unsupported, "device cuda: this build has no CUDA back end; use --device cpu");
}

}  // namespace

bool cuda_is_built() { return false; }
std::unique_ptr<Backend> make_cuda_backend(int) { refuse(); }
void prepare_cuda(Rank&, Backend&) { refuse(); }
void use_cuda_thread(Backend&) { refuse(); }
std::string cuda_tuning_name(Backend&) { refuse(); }
std::string use_cuda_tuning(Backend&, std::string_view, std::string_view) { refuse(); }
std::vector<std::string> cuda_tuning_warnings(Backend&) { refuse(); }
void begin_cuda_tuning(Backend&) { refuse(); }
std::string end_cuda_tuning(Backend&) { refuse(); }
uint64_t cuda_digest(Backend&, const std::vector<Tensor>&) { refuse(); }
CudaFacts cuda_facts(Backend&) { refuse(); }
std::vector<CudaFacts> cuda_devices() { refuse(); }
std::vector<std::string> cuda_plans(Backend&) { refuse(); }

}  // namespace zoetrope
