// linear: bias and GELU in the library's epilogue where it computes what ops.h says, else the product in fp32 and one
// kernel behind it. Rounded once either way.
#include <algorithm>

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/stream.h"

namespace zoetrope::cuda {
namespace {

// The epilogue's tanh is good to 6e-6 (docs/decisions/0105): enough for bf16. A bias must have the output's type.
bool in_epilogue(const Tensor& x, const Tensor& b, Act act, const Tensor& y) {
  if (x.dim(1) == 0) return false;  // a rank without heads: no product, the bias alone
  if (x.dtype() == DType::f32 && y.dtype() == DType::bf16) return false;
  if (act == Act::silu || (act == Act::gelu_tanh && y.dtype() == DType::f32)) return false;
  return !b.defined() || b.dtype() == y.dtype();
}

Epilogue epilogue_of(const Tensor& b, Act act) {
  if (act == Act::gelu_tanh) return b.defined() ? Epilogue::gelu_bias : Epilogue::gelu;
  return b.defined() ? Epilogue::bias : Epilogue::none;
}

Finish finish_of(Act act) {
  return act == Act::gelu_tanh ? Finish::gelu_tanh : act == Act::silu ? Finish::silu : Finish::none;
}

}  // namespace

void CudaBackend::linear(Ctx& c, Tensor x, Tensor w, Tensor b, Act act, Tensor y) {
  if (y.size() == 0) return;
  const cudaStream_t stream = native(c.stream());
  std::byte* work = slots_.of(c);
  if (in_epilogue(x, b, act, y)) return products_.run(stream, x, w, epilogue_of(b, act), b, y, work);
  if (y.dtype() == DType::f32) {
    products_.run(stream, x, w, Epilogue::none, {}, y, work);
    return finish(stream, y.data<float>(), b, finish_of(act), {}, y);
  }
  // bf16 from fp32 sums: as many rows at a time as the rest of the slot holds.
  const int64_t columns = w.dim(0), room = static_cast<int64_t>(Slots::bytes - Products::workspace) / 4;
  const int64_t most = std::max<int64_t>(1, room / columns);
  for (int64_t from = 0; from < x.dim(0); from += most) {
    const int64_t to = std::min(x.dim(0), from + most);
    const Tensor sums(work + Products::workspace, {to - from, columns}, DType::f32);
    products_.run(stream, x.rows(from, to), w, Epilogue::none, {}, sums, work);
    finish(stream, sums.data<float>(), b, finish_of(act), {}, y.rows(from, to));
  }
}

}  // namespace zoetrope::cuda
