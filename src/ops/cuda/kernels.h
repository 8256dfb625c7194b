// Every kernel's host side: it picks types and grid, launches on the stream and returns. One .cu file per op or family
// of ops; formulas and shapes are those of ops/ops.h. Kept free of everything but tensors, so that nvcc has little to
// read.
#pragma once
#include <cuda_runtime.h>

#include "core/heads.h"
#include "core/unpack.h"

namespace zoetrope::cuda {

bool has_code();  // whether this program holds code for the current device

// ---- rows: norms, modulation, residual. Up to most_channels a row.
inline constexpr int64_t most_channels = 16384;
// sums over `columns` stand for the rows' own sums of squares where they are defined.
void rms_norm(cudaStream_t s, const Tensor& x, const Tensor& w, float eps, const Tensor& sums, int64_t columns,
              const Tensor& y);
void square_sums(cudaStream_t s, const Heads& x, const Tensor& sums);
void layer_norm(cudaStream_t s, const Tensor& x, const Tensor& w, const Tensor& b, float eps, const Tensor& y);
void modulate(cudaStream_t s, const Tensor& x, const Tensor& shift, const Tensor& scale, const Tensor& rows,
              const Tensor& y);
void norm_modulate(cudaStream_t s, const Tensor& x, const Tensor& shift, const Tensor& scale, const Tensor& rows,
                   float eps, const Tensor& y);
void gate_add(cudaStream_t s, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows);
// `more` may be undefined; else x += more first, and y is not x.
void channel_norm(cudaStream_t s, const Tensor& x, const Tensor& more, const Tensor& gamma, bool silu, const Tensor& y);
void gate_add_layer_norm(cudaStream_t s, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows,
                         const Tensor& w, const Tensor& b, float eps, const Tensor& n);
void gate_add_norm_modulate(cudaStream_t s, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows,
                            const Tensor& shift, const Tensor& scale, const Tensor& chosen, float eps, const Tensor& n);

// ---- heads
struct RopeGrid {
  Tensor axis[3];
  bool adjacent = true;
  int64_t offset = 0;
};
void rope(cudaStream_t s, const Heads& x, const RopeGrid& grid);
void norm_rope(cudaStream_t s, const Heads& x, const Tensor& w, float eps, const Tensor& sums, int64_t columns,
               const RopeGrid* grid, const HeadParts& out);
void copy_heads(cudaStream_t s, const Heads& from, const Heads& to);

// ---- attention. width up to most_width; keys: real ones; relative_bias may be undefined.
inline constexpr int64_t most_width = 512;
void generic_attention(cudaStream_t s, const Heads& q, const Heads& k, const Heads& v, float scale, bool causal,
                       int64_t keys, const Tensor& relative_bias, const Tensor& o, const Tensor& lse);
// logits [rows, n] fp32 and weights bf16 with rows `row` elements apart, eights: weights exp(scale logit - top), the
// inverses of their sums [rows] and lse [rows].
void softmax(cudaStream_t s, const float* logits, int64_t rows, int64_t n, int64_t row, float scale, bf16* weights,
             float* inverse, float* lse);
// y = sums[rows, width] inverse[rows], rows of y `row` elements apart; eights.
void scale_rows(cudaStream_t s, const float* sums, const float* inverse, int64_t rows, int64_t width, bf16* y,
                int64_t row);
void no_keys(cudaStream_t s, const Tensor& o, const Tensor& lse);  // 0 and -inf
void clear(cudaStream_t s, const Heads& x);                        // zeros; bf16
void set_lengths(cudaStream_t s, int32_t* at, int32_t queries, int32_t keys);
void merge_attention(cudaStream_t s, const Tensor& o, const Tensor& lse, const Tensor& part, const Tensor& part_lse);

// ---- elements
void silu(cudaStream_t s, const Tensor& x, const Tensor& y);
void gated_gelu(cudaStream_t s, const Tensor& a, const Tensor& b, const Tensor& y);
void add(cudaStream_t s, const Tensor& into, const Tensor& x);
void cast(cudaStream_t s, const Tensor& x, const Tensor& y);
void fill(cudaStream_t s, const Tensor& x, float value);
void affine(cudaStream_t s, const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& y);
void to_pixels(cudaStream_t s, const Tensor& x, const Tensor& y);
void guide(cudaStream_t s, const Tensor& cond, const Tensor& uncond, const Tensor& scale, const Tensor& v);
void multistep(cudaStream_t s, const Tensor& x, const Tensor& last, const Tensor& m1, const Tensor& m2, const Tensor& v,
               const Tensor& k);
// uncond and scale may be undefined.
void guided_multistep(cudaStream_t s, const Tensor& x, const Tensor& last, const Tensor& m1, const Tensor& m2,
                      const Tensor& cond, const Tensor& uncond, const Tensor& scale, const Tensor& k,
                      const Tensor& bad);

// ---- moves
void embedding(cudaStream_t s, const Tensor& table, const Tensor& ids, const Tensor& y);
void timestep_embed(cudaStream_t s, const Tensor& t, const Tensor& y);
void value_range(cudaStream_t s, const Tensor& x, void* work, const Tensor& y);  // 32 KiB at work
void patchify(cudaStream_t s, const Tensor& x, int64_t ph, int64_t pw, const Tensor& y);
void unpatchify(cudaStream_t s, const Tensor& x, int64_t ph, int64_t pw, const Tensor& y);
void interleave_frames(cudaStream_t s, const Tensor& x, const Tensor& y);

// ---- loading. *bad, which the host can read, becomes 1 where a result is not finite.
void look(cudaStream_t s, const Tensor& x, int* bad);
void unpack(cudaStream_t s, const void* stored, DType type, const Unpack& how, const Tensor& to, int* bad);
void digest(cudaStream_t s, const Tensor& x, unsigned long long* sum);  // added to *sum

// ---- around the libraries
enum class Finish : uint8_t { none, gelu_tanh, silu };
// y = act(sums + bias + add), rounded once. sums [rows, n] fp32, may be y itself; bias and add may be undefined.
void finish(cudaStream_t s, const float* sums, const Tensor& bias, Finish act, const Tensor& add, const Tensor& y);

// How a convolution looks at its input: zeros around, `stride` apart.
struct Look {
  int top = 0, bottom = 0, left = 0, right = 0, stride = 1;
};
// Rows [row, row + rows) of the padded frames: to [T, rows, W + left + right, I].
void pad_rows(cudaStream_t s, const Tensor& x, const Look& look, int64_t row, int64_t rows, void* to);
// The product that a convolution is: to [count, kt kh kw I] of x's type, for output pixels [first, first + count) of
// y [T, H', W'].
void unfold(cudaStream_t s, const Tensor& x, const Tensor& w, const Tensor& y, const Look& look, int64_t first,
            int64_t count, void* to);

// y [2, 2 O, 1, 2, 2, I] of w [O, 1, 3, 3, I], each of either compute type.
void corner_weights(cudaStream_t s, const Tensor& w, const Tensor& y);

}  // namespace zoetrope::cuda
