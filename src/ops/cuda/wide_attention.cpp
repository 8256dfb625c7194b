// Attention of bf16 heads wider than 128 without bias or mask: two cuBLASLt products and a softmax over tiles of query
// rows. Logits, softmax and sums are fp32, the weights exp(logit - top) are rounded to bf16 before they meet v, the
// division by their sum comes last: the rounding points of cuDNN's attention.
#include <algorithm>

#include "base/rounding.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/fast_attention.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/stream.h"

namespace zoetrope::cuda {
namespace {

Matrix rows_of(const Heads& x, int64_t head, int64_t from, int64_t count) {
  return {x.buf.data<bf16>() + x.at + from * x.row + head * x.width, count, x.width, x.row, DType::bf16};
}

// What a tile of `most` queries takes of the slot, behind the library's workspace. `most` depends on the number of keys
// and on the width alone: all ranks of a mesh, and all calls of a site, have the same.
struct Tile {
  int64_t most, pitch;
  std::byte* at;

  Tile(int64_t keys, int64_t width, std::byte* begin) : pitch(round_up(keys, 8)), at(begin) {
    const int64_t room = static_cast<int64_t>(Slots::bytes - Products::workspace) - 4 * 256;
    const int64_t each = pitch * (4 + 2) + width * 4 + 4;
    most = std::min<int64_t>(room / each, 4096);
    if (most >= 256) most = most / 256 * 256;
    if (most < 1)
      fail(Code::unsupported, "attention: ", keys, " keys of width ", width, " on CUDA; a row of logits takes ", each,
           " bytes, ", room, " are there");
  }
  template <class T>
  T* take(int64_t count) {
    auto* const taken = reinterpret_cast<T*>(at);
    at += round_up(count * static_cast<int64_t>(sizeof(T)), 256);
    return taken;
  }
};

}  // namespace

bool is_wide(const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options) {
  return q.width > 128 && q.width % 8 == 0 && is_plain_bf16(q, k, v, options);
}

void CudaBackend::wide_attention(cudaStream_t stream, const Heads& q, const Heads& k, const Heads& v, float scale,
                                 int64_t keys, const Partial& out, std::byte* work) {
  Tile tile(keys, q.width, work + Products::workspace);
  const int64_t pitch = tile.pitch, row = q.heads * q.width;
  auto* const logits = tile.take<float>(tile.most * pitch);
  auto* const weights = tile.take<bf16>(tile.most * pitch);
  auto* const sums = tile.take<float>(tile.most * q.width);
  auto* const inverse = tile.take<float>(tile.most);
  for (int64_t head = 0; head < q.heads; ++head) {
    const int64_t key_head = head / (q.heads / k.heads);
    const int64_t tiles = (q.tokens + tile.most - 1) / tile.most;
    const int64_t each = std::min(tile.most, round_up((q.tokens + tiles - 1) / tiles, 64));
    for (int64_t from = 0; from < q.tokens; from += each) {
      const int64_t count = std::min(each, q.tokens - from);
      const Matrix left = rows_of(q, head, from, count);
      products_.run(stream, left, rows_of(k, key_head, 0, keys), Products::Right::transposed,
                    {logits, count, keys, pitch, DType::f32}, tile.most, work);
      softmax(stream, logits, count, keys, pitch, scale, weights, inverse,
              out.lse.data<float>() + head * q.tokens + from);
      products_.run(stream, {weights, count, keys, pitch, DType::bf16}, rows_of(v, key_head, 0, keys),
                    Products::Right::plain, {sums, count, q.width, q.width, DType::f32}, tile.most, work);
      scale_rows(stream, sums, inverse, count, q.width, out.o.data<bf16>() + from * row + head * q.width, row);
    }
  }
}

}  // namespace zoetrope::cuda
