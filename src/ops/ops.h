// All operations. Free functions over a context; the front checks shapes and states FLOPs and bytes, the back end
// trusts. Outputs are taken from c.scratch() unless the caller passes one (`*_into`, or an argument that is written).
//
// Axes: S tokens, K keys, N heads, D head width, C channels (often N*D), I in, O out, T H W frames, rows, columns,
// R rows of a modulation table. Tensors are contiguous; images and video are [T, H, W, C].
// Types: "compute type" is fp32 or bf16. Sums, statistics and transcendental functions are fp32 everywhere; a result is
// rounded once, when stored. docs/numerics.md lists every rounding point.
#pragma once
#include "core/ctx.h"
#include "core/heads.h"

namespace zoetrope {

// ---- matrix products --------------------------------------------------------------------------------------------

enum class Act : uint8_t { none, gelu_tanh, silu };

struct LinearOptions {
  Act act = Act::none;
  DType out = DType::f32;  // used when `cast` is set; otherwise the result has the type of x
  bool cast = false;
};

// y[S, O] = act(x[S, I] w[O, I]^T + b[O]).  x and w share a compute type; b (may be undefined) is of it or fp32.
Tensor linear(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, LinearOptions options = {});
void linear_into(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, Act act, const Tensor& y);

// ---- attention --------------------------------------------------------------------------------------------------

struct AttentionOptions {
  float scale = 0;            // 0: 1 / sqrt(D)
  bool causal = false;        // query i sees keys 0 .. i + (K - S)
  int64_t keys = -1;          // real keys; the rest may hold anything and may be overwritten; -1: all of them
  Tensor relative_bias = {};  // [N, S + K - 1] fp32, added to logit (i, j) from column j - i + S - 1; may be undefined
};

// o: [S, N, D] of q's type; lse: [N, S] fp32, natural log of the sum of exp(scaled logits), -inf where no key is seen.
struct Partial {
  Tensor o, lse;
};

// softmax(scale q k^T + bias) v. K/V may have fewer heads than q (N divisible by M). Never materialises S x K.
Partial attention(Ctx& c, const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options = {});

// Folds `part` into `into`, both over the same queries but disjoint keys (online softmax, fp32; -inf merges to no NaN).
void merge_attention(Ctx& c, const Partial& into, const Partial& part);

// ---- norms, modulation, residual --------------------------------------------------------------------------------

// Sums of squares of whole rows, of which x holds some columns: sums[S] fp32, over `columns` of them. Undefined: x
// holds the rows whole.
struct RowSquares {
  Tensor sums;
  int64_t columns = 0;
};

// y[S, C] = x / sqrt(mean(x^2 over C) + eps) * w[C]; the mean is whole.sums / whole.columns where that is given.
Tensor rms_norm(Ctx& c, const Tensor& x, const Tensor& w, float eps, DType out, const RowSquares& whole = {});

// sums[S] = the sum of x^2 over all heads of a token, fp32, in the order of rms_norm: summed over ranks that hold
// different heads, it makes a RowSquares.
void square_sums(Ctx& c, const Heads& x, const Tensor& sums);

// y[S, C] = (x - mean) / sqrt(var + eps) * w[C] + b[C]; w and b may be undefined (1 and 0).
Tensor layer_norm(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, float eps, DType out);

// Rows of shift and scale [R, C] fp32; token s uses row rows[s] (int32 [S]), or row 0 where rows is undefined.
struct Modulation {
  Tensor shift, scale, rows;
};

// y[S, C] = x * (1 + scale) + shift
Tensor modulate(Ctx& c, const Tensor& x, const Modulation& m, DType out);

// Fused layer_norm (no weights, fp32) and modulate: the input of an adaLN branch.
Tensor norm_modulate(Ctx& c, const Tensor& x, const Modulation& m, float eps, DType out);
void norm_modulate_into(Ctx& c, const Tensor& x, const Modulation& m, float eps, const Tensor& y);

// h[S, C] (fp32 residual stream, in place) += y[S, C] * gate[R, C]; gate undefined: += y.
void gate_add(Ctx& c, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows);

// The norm in front of the next branch: layer_norm with w and b, or, where m is given, norm_modulate with m.
struct NextNorm {
  float eps = 0;
  Tensor w = {}, b = {};
  Modulation m = {};

  bool modulated() const { return m.shift.defined(); }
};

// Fused gate_add and the norm of what h has become: n[S, C] = norm(h + y * gate). n shares no memory with h and y.
void gate_add_norm(Ctx& c, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows,
                   const NextNorm& next, const Tensor& n);

// ---- rotary embedding -------------------------------------------------------------------------------------------

enum class RopeStyle : uint8_t { adjacent, halves };  // pairs (2p, 2p+1), or (p, p + D/2)

// Tables of a [T, H, W] token grid: per axis [extent, pairs, 2] fp32, (cos, sin) last. Pairs of the axes follow each
// other within a head. Token s stands at grid index offset + s, row-major; tokens past the grid (padding) stay as is.
struct Rope {
  Tensor axis[3];
  RopeStyle style = RopeStyle::adjacent;
  int64_t offset = 0;
};

void rope(Ctx& c, const Heads& x, const Rope& rope);  // in place

// Fused: rms_norm of each token of x, rotary, written to `out` (which may be one exchange slot or several). w[N*D]
// norms over all heads together, w[D] each head alone. rope = nullptr: none. Rounds between norm and rotary as the
// plain form does. out may be x. `whole`: x holds some heads of tokens that are normed over all of theirs, w[N*D] those
// heads' weights.
void norm_rope(Ctx& c, const Heads& x, const Tensor& w, float eps, const Rope* rope, const HeadParts& out,
               const RowSquares& whole = {});

void copy_heads(Ctx& c, const Heads& from, const Heads& to);  // any element type
void copy_heads(Ctx& c, const Heads& from, const HeadParts& to);

// ---- element-wise and small -------------------------------------------------------------------------------------

Tensor silu(Ctx& c, const Tensor& x);
Tensor gated_gelu(Ctx& c, const Tensor& a, const Tensor& b);  // gelu_tanh(a) * b
void add(Ctx& c, const Tensor& into, const Tensor& x);        // types may differ; the sum is fp32, stored as `into`
Tensor cast(Ctx& c, const Tensor& x, DType out);
void copy(Ctx& c, const Tensor& from, const Tensor& to);  // same shape and type
void fill(Ctx& c, const Tensor& x, float value);
Tensor embedding(Ctx& c, const Tensor& table, const Tensor& ids);  // table [V, C], ids int32 [S] -> [S, C]

// [cos(t w_0 .. w_{half-1}) | sin(...)], w_k = exp(-ln(10000) k / half), half = dim / 2. t: fp32 [R] -> fp32 [R, dim]
Tensor timestep_embed(Ctx& c, const Tensor& t, int64_t dim);

// min, max over the finite elements and the number of non-finite ones: fp32 [3].
Tensor value_range(Ctx& c, const Tensor& x);

// ---- latents and patches ----------------------------------------------------------------------------------------

// x[T, H, W, C] -> [S, ph*pw*C], S = T * H/ph * W/pw; column (i*pw + j)*C + ch. Result has type `out`.
Tensor patchify(Ctx& c, const Tensor& x, int64_t ph, int64_t pw, DType out);
// The inverse, x[S, ph*pw*C] -> [T, H, W, C] fp32.
Tensor unpatchify(Ctx& c, const Tensor& x, int64_t t, int64_t h, int64_t w, int64_t ph, int64_t pw);

// y[..., C] = x * scale[C] + shift[C]
Tensor affine(Ctx& c, const Tensor& x, const Tensor& scale, const Tensor& shift, DType out);

// ---- convolution (VAE) ------------------------------------------------------------------------------------------

// Zero rows and columns stand around each frame; a negative number leaves so many of the input's own out.
struct ConvOptions {
  int top = 0, bottom = 0, left = 0, right = 0;
  int stride = 1;  // of rows and columns
};

// x[T + kt - 1, H, W, I], w[O, kt, kh, kw, I], b[O] -> [T, H', W', O]. Time is never padded: a causal convolution reads
// kt - 1 frames of history in front of the new ones. add (may be undefined) [T, H', W', O] is added before rounding.
Tensor conv(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, const ConvOptions& options, const Tensor& add);
void conv_into(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, const ConvOptions& options, const Tensor& add,
               const Tensor& y);

// A 3x3 convolution of a picture enlarged to twice its size (each pixel four times), done on the small picture: the
// four pixels around a corner where pixels of the small one meet read the same 2x2 of these. w[O, 1, 3, 3, I] -> [2, 2
// O, 1, 2, 2, I] of type `out`: [a, b O + o] are the weights of row a and column b around a corner, each the sum of the
// one, two or four of w that meet the same small pixel.
Tensor corner_weights(Ctx& c, const Tensor& w, DType out, Region& region);

// y[..., C] = x / max(|x|_2, 1e-12) * sqrt(C) * gamma[C], then SiLU if asked. Written to `y` (a convolution's
// buffer, or x itself).
void channel_norm(Ctx& c, const Tensor& x, const Tensor& gamma, bool silu, const Tensor& y);

// Fused add and channel_norm: x += more (of x's type), then the norm of x to `y`, which is neither.
void add_channel_norm(Ctx& c, const Tensor& x, const Tensor& more, const Tensor& gamma, bool silu, const Tensor& y);

// x[T, H, W, 2C] -> [2T, H, W, C]: channels [0, C) are the even frames, [C, 2C) the odd ones.
Tensor interleave_frames(Ctx& c, const Tensor& x);

// x[T, H, W, 3] in [-1, 1] (clamped) -> uint8, round((x + 1) / 2 * 255).
Tensor to_pixels(Ctx& c, const Tensor& x);

// ---- guidance and scheduler -------------------------------------------------------------------------------------

// v = uncond + scale * (cond - uncond); scale: fp32 [1] in device memory, so that replays can change it.
Tensor guide(Ctx& c, const Tensor& cond, const Tensor& uncond, const Tensor& scale);

// One step of a linear multistep solver in x0 form (UniPC, Euler). All fp32, in place, history rotated by the op.
//   m = x - k[0] v;  y = k[1] x + k[2] last + k[3] m1 + k[4] m2 + k[5] m          (corrector; k[1] = 1 alone: none)
//   x <- k[6] y + k[7] m + k[8] m1;  last <- y;  m2 <- m1;  m1 <- m               (predictor)
struct MultistepState {
  Tensor x, last, m1, m2;
};
inline constexpr int multistep_coefficients = 9;
void multistep(Ctx& c, const MultistepState& state, const Tensor& v, const Tensor& k);

// What the branches of a step predict. Without guidance only cond is there.
struct Predictions {
  Tensor cond, uncond, scale;

  bool guided() const { return uncond.defined(); }
};

// Fused guide and multistep in one pass: v = guide(cond, uncond, scale), or cond without guidance, as fp32. bad (fp32
// [1]) grows by the number of elements of v that are not finite, exact to 2^24.
void guided_multistep(Ctx& c, const MultistepState& state, const Predictions& predictions, const Tensor& k,
                      const Tensor& bad);

}  // namespace zoetrope
