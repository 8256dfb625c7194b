// From the contract to the kernels, one line an op.
#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/stream.h"

namespace zoetrope::cuda {
namespace {

cudaStream_t on(const Ctx& c) { return native(c.stream()); }

void require_row(const char* op, int64_t channels) {
  if (channels > most_channels)
    fail(Code::unsupported, op, ": rows of ", channels, " channels on CUDA, at most ", most_channels, " are built");
}

RopeGrid grid_of(const Rope& rope) {
  return {{rope.axis[0], rope.axis[1], rope.axis[2]}, rope.style == RopeStyle::adjacent, rope.offset};
}

}  // namespace

void CudaBackend::rms_norm(Ctx& c, Tensor x, Tensor w, float eps, RowSquares whole, Tensor y) {
  require_row("rms_norm", x.dim(-1));
  cuda::rms_norm(on(c), x, w, eps, whole.sums, whole.columns, y);
}
void CudaBackend::square_sums(Ctx& c, Heads x, Tensor sums) {
  require_row("square_sums", x.heads * x.width);
  cuda::square_sums(on(c), x, sums);
}
void CudaBackend::layer_norm(Ctx& c, Tensor x, Tensor w, Tensor b, float eps, Tensor y) {
  require_row("layer_norm", x.dim(-1));
  cuda::layer_norm(on(c), x, w, b, eps, y);
}
void CudaBackend::modulate(Ctx& c, Tensor x, Modulation m, Tensor y) {
  require_row("modulate", x.dim(-1));
  cuda::modulate(on(c), x, m.shift, m.scale, m.rows, y);
}
void CudaBackend::norm_modulate(Ctx& c, Tensor x, Modulation m, float eps, Tensor y) {
  require_row("norm_modulate", x.dim(-1));
  cuda::norm_modulate(on(c), x, m.shift, m.scale, m.rows, eps, y);
}
void CudaBackend::gate_add(Ctx& c, Tensor h, Tensor y, Tensor gate, Tensor rows) {
  require_row("gate_add", y.dim(-1));
  cuda::gate_add(on(c), h, y, gate, rows);
}
void CudaBackend::gate_add_norm(Ctx& c, Tensor h, Tensor y, Tensor gate, Tensor rows, NextNorm next, Tensor n) {
  require_row("gate_add_norm", y.dim(-1));
  if (next.modulated())
    cuda::gate_add_norm_modulate(on(c), h, y, gate, rows, next.m.shift, next.m.scale, next.m.rows, next.eps, n);
  else
    cuda::gate_add_layer_norm(on(c), h, y, gate, rows, next.w, next.b, next.eps, n);
}
void CudaBackend::channel_norm(Ctx& c, Tensor x, Tensor gamma, bool silu, Tensor y) {
  require_row("channel_norm", x.dim(-1));
  cuda::channel_norm(on(c), x, {}, gamma, silu, y);
}
void CudaBackend::add_channel_norm(Ctx& c, Tensor x, Tensor more, Tensor gamma, bool silu, Tensor y) {
  require_row("add_channel_norm", x.dim(-1));
  cuda::channel_norm(on(c), x, more, gamma, silu, y);
}

void CudaBackend::rope(Ctx& c, Heads x, Rope rope) { cuda::rope(on(c), x, grid_of(rope)); }
void CudaBackend::norm_rope(Ctx& c, Heads x, Tensor w, float eps, RowSquares whole, Rope rope, bool rotate,
                            HeadParts out) {
  require_row("norm_rope", w.size());
  const RopeGrid grid = rotate ? grid_of(rope) : RopeGrid{};
  cuda::norm_rope(on(c), x, w, eps, whole.sums, whole.columns, rotate ? &grid : nullptr, out);
}
void CudaBackend::copy_heads(Ctx& c, Heads from, Heads to) { cuda::copy_heads(on(c), from, to); }
void CudaBackend::merge_attention(Ctx& c, Partial into, Partial part) {
  cuda::merge_attention(on(c), into.o, into.lse, part.o, part.lse);
}

void CudaBackend::silu(Ctx& c, Tensor x, Tensor y) { cuda::silu(on(c), x, y); }
void CudaBackend::gated_gelu(Ctx& c, Tensor a, Tensor b, Tensor y) { cuda::gated_gelu(on(c), a, b, y); }
void CudaBackend::add(Ctx& c, Tensor into, Tensor x) { cuda::add(on(c), into, x); }
void CudaBackend::cast(Ctx& c, Tensor x, Tensor y) { cuda::cast(on(c), x, y); }
void CudaBackend::copy(Ctx& c, Tensor from, Tensor to) {
  if (from.bytes() == 0 || from.raw() == to.raw()) return;
  check(cudaMemcpyAsync(to.raw(), from.raw(), static_cast<size_t>(from.bytes()), cudaMemcpyDefault, on(c)));
}
void CudaBackend::fill(Ctx& c, Tensor x, float value) { cuda::fill(on(c), x, value); }
void CudaBackend::affine(Ctx& c, Tensor x, Tensor scale, Tensor shift, Tensor y) {
  cuda::affine(on(c), x, scale, shift, y);
}
void CudaBackend::to_pixels(Ctx& c, Tensor x, Tensor y) { cuda::to_pixels(on(c), x, y); }
void CudaBackend::guide(Ctx& c, Tensor cond, Tensor uncond, Tensor scale, Tensor v) {
  cuda::guide(on(c), cond, uncond, scale, v);
}
void CudaBackend::multistep(Ctx& c, MultistepState state, Tensor v, Tensor k) {
  cuda::multistep(on(c), state.x, state.last, state.m1, state.m2, v, k);
}
void CudaBackend::guided_multistep(Ctx& c, MultistepState state, Predictions p, Tensor k, Tensor bad) {
  cuda::guided_multistep(on(c), state.x, state.last, state.m1, state.m2, p.cond, p.uncond, p.scale, k, bad);
}

void CudaBackend::embedding(Ctx& c, Tensor table, Tensor ids, Tensor y) { cuda::embedding(on(c), table, ids, y); }
void CudaBackend::timestep_embed(Ctx& c, Tensor t, Tensor y) { cuda::timestep_embed(on(c), t, y); }
void CudaBackend::value_range(Ctx& c, Tensor x, Tensor y) { cuda::value_range(on(c), x, slots_.of(c), y); }
void CudaBackend::patchify(Ctx& c, Tensor x, int64_t ph, int64_t pw, Tensor y) { cuda::patchify(on(c), x, ph, pw, y); }
void CudaBackend::unpatchify(Ctx& c, Tensor x, int64_t ph, int64_t pw, Tensor y) {
  cuda::unpatchify(on(c), x, ph, pw, y);
}
void CudaBackend::corner_weights(Ctx& c, Tensor w, Tensor y) { cuda::corner_weights(on(c), w, y); }
void CudaBackend::interleave_frames(Ctx& c, Tensor x, Tensor y) { cuda::interleave_frames(on(c), x, y); }

}  // namespace zoetrope::cuda
