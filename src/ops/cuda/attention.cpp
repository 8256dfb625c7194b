// attention of bf16 heads without bias or mask: on Hopper a kernel of ours for heads of 128, else cuDNN for heads of 64
// and 128, two products for wider ones; a plain kernel of ours for everything else. Which one is a property of the
// device and the call site (type, width, options), never of lengths or of the mesh.
#include <algorithm>

#include "ops/cuda/check.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/fast_attention.h"
#include "ops/cuda/hopper_attention.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/stream.h"

namespace zoetrope::cuda {
namespace {

// What cuDNN is given in place of a single query, for which it has no engine 9: the same one twice.
struct Doubled {
  Tensor q, o, lse;  // [2, N, D], [2, N, D], [N, 2]

  Doubled(std::byte* at, const Heads& one) {
    const Shape shape{2, one.heads, one.width};
    const int64_t bytes = (shape.size() * bytes_of(one.dtype()) + 255) / 256 * 256;
    q = {at, shape, one.dtype()}, o = {at + bytes, shape, one.dtype()};
    lse = {at + 2 * bytes, {one.heads, 2}, DType::f32};
  }
  Heads row(const Tensor& x, int64_t i) const { return slice(as_heads(x, q.dim(2)), i, i + 1); }
  Heads first_lse() const { return {lse, 0, 2, lse.dim(0), 1, 1}; }  // column 0
};

// The tokens that a fetch may see, so many rows of half a head at once.
CUtensorMap described(const Driver& driver, const Heads& x, int64_t tokens, cuuint32_t rows) {
  const auto* start = x.buf.data<bf16>() + x.at;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(x.width), static_cast<cuuint64_t>(x.heads),
                              static_cast<cuuint64_t>(tokens)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(x.width) * sizeof(bf16),
                                static_cast<cuuint64_t>(x.row) * sizeof(bf16)};
  const cuuint32_t box[] = {64, 1, rows}, each[] = {1, 1, 1};
  CUtensorMap map{};
  check(driver.encode_tiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, const_cast<bf16*>(start), sizes, strides, box,
                            each, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

bool for_hopper(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options) {
  const auto rows_apart = [](const Heads& x) { return x.tokens == 1 || x.row >= x.heads * x.width; };
  return q.width == 128 && options.scale > 0 && is_plain_bf16(q, k, v, options) && rows_apart(q) && rows_apart(k) &&
         rows_apart(v);
}

}  // namespace

void CudaBackend::attention(Ctx& c, Heads q, Heads k, Heads v, AttentionOptions options, Partial out) {
  if (q.size() == 0) return;
  const cudaStream_t stream = native(c.stream());
  if (options.keys == 0) return no_keys(stream, out.o, out.lse);  // cuDNN would answer NaN
  if (hopper_ && for_hopper(q, k, v, options)) {
    const HopperOperands x{described(driver_, q, q.tokens, hopper_queries),
                           described(driver_, k, options.keys, hopper_keys),
                           described(driver_, v, options.keys, hopper_keys),
                           static_cast<int>(q.tokens),
                           static_cast<int>(options.keys),
                           static_cast<int>(q.heads),
                           static_cast<int>(k.heads)};
    return hopper_attention(stream, x, facts_.multiprocessors, options.scale, out.o, out.lse);
  }
  if (is_wide(q, k, v, options)) return wide_attention(stream, q, k, v, options.scale, options.keys, out, slots_.of(c));
  if (!Dnn::attends(q, k, v, options)) {
    if (q.width > most_width)
      fail(Code::unsupported, "attention: heads of ", q.width, " on CUDA, at most 512 are built");
    return generic_attention(stream, q, k, v, options.scale, options.causal, options.keys, options.relative_bias, out.o,
                             out.lse);
  }
  // cuDNN gives the rows behind the real keys the weight zero, and multiplies: in its last tile a NaN or an infinity
  // that stands there would reach every query. These rows may hold anything, so they may also be made zeros: a few
  // rows of layout padding, in place, since a copy of k and v without them would cost more than the product's start.
  if (options.keys < k.tokens) {
    cuda::clear(stream, slice(k, options.keys, k.tokens));
    cuda::clear(stream, slice(v, options.keys, v.tokens));
  }
  std::byte* work = slots_.of(c);
  auto* lengths = reinterpret_cast<int32_t*>(work + Dnn::workspace);
  set_lengths(stream, lengths, static_cast<int32_t>(std::max<int64_t>(2, q.tokens)),
              static_cast<int32_t>(options.keys));
  if (q.tokens > 1) return dnn_->attention(stream, q, k, v, options.scale, lengths, out, work);
  const Doubled two(work + Dnn::workspace + 256, q);
  for (int64_t i = 0; i < 2; ++i) cuda::copy_heads(stream, q, two.row(two.q, i));
  dnn_->attention(stream, as_heads(two.q, q.width), k, v, options.scale, lengths, {two.o, two.lse}, work);
  cuda::copy_heads(stream, two.row(two.o, 0), as_heads(out.o, q.width));
  cuda::copy_heads(stream, two.first_lse(), as_heads(out.lse, 1));
}

}  // namespace zoetrope::cuda
