#include "ops/ops.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/backend.h"
#include "ops/compose.h"
#include "ops/host.h"

namespace zoetrope {
namespace {

bool is_compute(DType type) { return type == DType::f32 || type == DType::bf16; }

void require_compute(const char* op, const Tensor& x) {
  require(is_compute(x.dtype()), op, ": x is ", x.dtype(), ", fp32 or bf16 is needed");
}

void require_like(const char* op, const char* what, const Tensor& y, const Shape& shape, DType type) {
  require(y.shape() == shape && y.dtype() == type, op, ": ", what, " is ", y.shape(), " ", y.dtype(), ", should be ",
          shape, " ", type);
}

// A per-channel vector: undefined, or [C] of any compute type.
void require_channels(const char* op, const char* what, const Tensor& v, int64_t channels) {
  require(!v.defined() || (v.shape() == Shape{channels} && is_compute(v.dtype())), op, ": ", what, " is ", v.shape(),
          " but x has ", channels, " channels");
}

void require_rows(const char* op, const Tensor& table, const Tensor& rows, const Tensor& x) {
  require(table.rank() == 2 && table.dim(1) == x.dim(-1) && table.dtype() == DType::f32, op, ": the table is ",
          table.shape(), " ", table.dtype(), " but x is ", x.shape());
  require(!rows.defined() || (rows.shape() == Shape{x.dim(0)} && rows.dtype() == DType::i32), op, ": rows is ",
          rows.shape(), " but x is ", x.shape());
}

void require_update(const char* op, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows) {
  require_like(op, "h", h, y.shape(), DType::f32);
  require_compute(op, y);
  if (gate.defined()) require_rows(op, gate, rows, y);
}

void require_whole(const char* op, const RowSquares& whole, int64_t rows, int64_t columns) {
  if (!whole.sums.defined()) return;
  require_like(op, "the sums of squares", whole.sums, {rows}, DType::f32);
  require(whole.columns >= columns, op, ": sums of squares over ", whole.columns, " columns, of which x has ", columns);
}

double elements(const Tensor& x) { return static_cast<double>(x.size()); }

void require_same_heads(const char* op, const Heads& a, const Heads& b) {
  require(a.tokens == b.tokens && a.heads == b.heads && a.width == b.width, op, ": from ", a.tokens, "x", a.heads, "x",
          a.width, " to ", b.tokens, "x", b.heads, "x", b.width);
}

void require_parts(const char* op, const Heads& x, const HeadParts& out) {
  std::vector<bool> given(static_cast<size_t>(x.heads));
  for (const auto& [to, first] : out.parts) {
    require(first >= 0 && first + to.heads <= x.heads, op, ": heads [", first, ", ", first + to.heads, ") of ",
            x.heads);
    require_same_heads(op, slice_heads(x, first, first + to.heads), to);
    require(to.dtype() == out.dtype(), op, ": parts are ", out.dtype(), " and ", to.dtype());
    std::fill_n(given.begin() + first, to.heads, true);
  }
  const auto missing = std::ranges::find(given, false);
  require(missing == given.end(), op, ": head ", missing - given.begin(), " goes nowhere");
}

void require_rope(const Heads& x, const Rope& rope) {
  int64_t pairs = 0;
  for (const Tensor& axis : rope.axis) {
    require(axis.rank() == 3 && axis.dim(2) == 2 && axis.dtype() == DType::f32, "rope: a table is ", axis.shape(), " ",
            axis.dtype(), ", should be [extent, pairs, 2] fp32");
    pairs += axis.dim(1);
  }
  require(2 * pairs == x.width, "rope: tables hold ", pairs, " pairs but heads are ", x.width, " wide");
  require(rope.offset >= 0, "rope: offset ", rope.offset, " is negative");
}

}  // namespace

// ---- matrix products --------------------------------------------------------------------------------------------

Tensor linear(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, LinearOptions options) {
  require(x.rank() == 2 && w.rank() == 2, "linear: x is ", x.shape(), ", w is ", w.shape(),
          "; two axes each are needed");
  const Tensor y = c.empty({x.dim(0), w.dim(0)}, options.cast ? options.out : x.dtype());
  linear_into(c, x, w, b, options.act, y);
  return y;
}

void linear_into(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, Act act, const Tensor& y) {
  require_compute("linear", x);
  require(x.rank() == 2 && w.rank() == 2 && x.dim(1) == w.dim(1), "linear: x is ", x.shape(), " but w is ", w.shape());
  require(x.dtype() == w.dtype(), "linear: x is ", x.dtype(), " but w is ", w.dtype());
  require_channels("linear", "b", b, w.dim(0));
  require(y.shape() == Shape({x.dim(0), w.dim(0)}) && is_compute(y.dtype()), "linear: y is ", y.shape(), " ",
          y.dtype());
  c.run({"linear", 2.0 * elements(x) * static_cast<double>(w.dim(0)), bytes(x, w, b, y)},
        [=, &c](Backend& k) { k.linear(c, x, w, b, act, y); });
}

// ---- attention --------------------------------------------------------------------------------------------------

Partial attention(Ctx& c, const Heads& q, const Heads& k, const Heads& v, const AttentionOptions& options) {
  require(is_compute(q.dtype()) && q.dtype() == k.dtype() && q.dtype() == v.dtype(), "attention: q is ", q.dtype(),
          ", k ", k.dtype(), ", v ", v.dtype());
  require_same_heads("attention k, v", k, v);
  require(q.width == k.width && k.heads > 0 && q.heads % k.heads == 0, "attention: q has ", q.heads, " heads of ",
          q.width, ", k ", k.heads, " of ", k.width);
  require(options.keys <= k.tokens, "attention: ", options.keys, " real keys of ", k.tokens);
  const Tensor& bias = options.relative_bias;
  require(!bias.defined() || (bias.shape() == Shape({q.heads, q.tokens + k.tokens - 1}) && bias.dtype() == DType::f32),
          "attention: relative_bias is ", bias.shape(), ", should be [", q.heads, ", ", q.tokens + k.tokens - 1, "]");
  const Partial out{c.empty({q.tokens, q.heads, q.width}, q.dtype()), c.empty({q.heads, q.tokens}, DType::f32)};
  AttentionOptions given = options;
  if (given.scale == 0) given.scale = 1.0f / std::sqrt(static_cast<float>(q.width));
  if (given.keys < 0) given.keys = k.tokens;
  const double flops = 4.0 * static_cast<double>(q.size()) * static_cast<double>(given.keys);
  c.run({"attention", flops, q.bytes() + k.bytes() + v.bytes() + bytes(out.o, out.lse)},
        [=, &c](Backend& b) { b.attention(c, q, k, v, given, out); });
  return out;
}

void merge_attention(Ctx& c, const Partial& into, const Partial& part) {
  require(into.o.rank() == 3, "merge_attention: o is ", into.o.shape(), ", should be [S, N, D]");
  require_like("merge_attention", "o", part.o, into.o.shape(), into.o.dtype());
  for (const Partial& side : {into, part})
    require_like("merge_attention", "lse", side.lse, {into.o.dim(1), into.o.dim(0)}, DType::f32);
  c.run({"merge_attention", 4 * elements(into.o), bytes(into.o, into.lse, part.o, part.lse, into.o)},
        [=, &c](Backend& b) { b.merge_attention(c, into, part); });
}

// ---- norms, modulation, residual --------------------------------------------------------------------------------

Tensor rms_norm(Ctx& c, const Tensor& x, const Tensor& w, float eps, DType out, const RowSquares& whole) {
  require_compute("rms_norm", x);
  require(w.defined(), "rms_norm: no weight given");
  require_channels("rms_norm", "w", w, x.dim(-1));
  require_whole("rms_norm", whole, x.size() / std::max<int64_t>(x.dim(-1), 1), x.dim(-1));
  const Tensor y = c.empty(x.shape(), out);
  c.run({"rms_norm", 4 * elements(x), bytes(x, w, whole.sums, y)},
        [=, &c](Backend& b) { b.rms_norm(c, x, w, eps, whole, y); });
  return y;
}

void square_sums(Ctx& c, const Heads& x, const Tensor& sums) {
  require(is_compute(x.dtype()), "square_sums: x is ", x.dtype(), ", fp32 or bf16 is needed");
  require_like("square_sums", "sums", sums, {x.tokens}, DType::f32);
  c.run({"square_sums", 2.0 * static_cast<double>(x.size()), x.bytes() + bytes(sums)},
        [=, &c](Backend& b) { b.square_sums(c, x, sums); });
}

Tensor layer_norm(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, float eps, DType out) {
  require_compute("layer_norm", x);
  require_channels("layer_norm", "w", w, x.dim(-1));
  require_channels("layer_norm", "b", b, x.dim(-1));
  const Tensor y = c.empty(x.shape(), out);
  c.run({"layer_norm", 8 * elements(x), bytes(x, w, b, y)}, [=, &c](Backend& k) { k.layer_norm(c, x, w, b, eps, y); });
  return y;
}

Tensor modulate(Ctx& c, const Tensor& x, const Modulation& m, DType out) {
  require_compute("modulate", x);
  require_rows("modulate", m.shift, m.rows, x);
  require_rows("modulate", m.scale, m.rows, x);
  const Tensor y = c.empty(x.shape(), out);
  c.run({"modulate", 3 * elements(x), bytes(x, m.shift, m.scale, m.rows, y)},
        [=, &c](Backend& b) { b.modulate(c, x, m, y); });
  return y;
}

Tensor norm_modulate(Ctx& c, const Tensor& x, const Modulation& m, float eps, DType out) {
  const Tensor y = c.empty(x.shape(), out);
  norm_modulate_into(c, x, m, eps, y);
  return y;
}

void norm_modulate_into(Ctx& c, const Tensor& x, const Modulation& m, float eps, const Tensor& y) {
  require_compute("norm_modulate", x);
  require_rows("norm_modulate", m.shift, m.rows, x);
  require_rows("norm_modulate", m.scale, m.rows, x);
  require(y.shape() == x.shape() && is_compute(y.dtype()), "norm_modulate: y is ", y.shape(), " ", y.dtype(),
          " but x is ", x.shape());
  if (!c.traits().fused_glue) return compose::norm_modulate(c, x, m, eps, y);
  c.run({"norm_modulate", 11 * elements(x), bytes(x, m.shift, m.scale, m.rows, y)},
        [=, &c](Backend& b) { b.norm_modulate(c, x, m, eps, y); });
}

void gate_add(Ctx& c, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows) {
  require_update("gate_add", h, y, gate, rows);
  c.run({"gate_add", 2 * elements(h), 2 * h.bytes() + bytes(y, gate, rows)},
        [=, &c](Backend& b) { b.gate_add(c, h, y, gate, rows); });
}

void gate_add_norm(Ctx& c, const Tensor& h, const Tensor& y, const Tensor& gate, const Tensor& rows,
                   const NextNorm& next, const Tensor& n) {
  const char* op = "gate_add_norm";
  require_update(op, h, y, gate, rows);
  if (next.modulated()) {
    require_rows(op, next.m.shift, next.m.rows, h);
    require_rows(op, next.m.scale, next.m.rows, h);
    require(!next.w.defined() && !next.b.defined(), op, ": weights and a modulation are given, one of them is needed");
  } else {
    require(!next.m.scale.defined() && !next.m.rows.defined(), op, ": a modulation has scales or rows but no shifts");
  }
  require_channels(op, "w", next.w, h.dim(-1));
  require_channels(op, "b", next.b, h.dim(-1));
  require(n.shape() == h.shape() && is_compute(n.dtype()), op, ": n is ", n.shape(), " ", n.dtype(), " but h is ",
          h.shape());
  if (!c.traits().fused_glue) return compose::gate_add_norm(c, h, y, gate, rows, next, n);
  const int64_t tables = bytes(gate, rows, next.w, next.b, next.m.shift, next.m.scale, next.m.rows);
  c.run({op, (next.modulated() ? 13 : 10) * elements(h), 2 * h.bytes() + bytes(y, n) + tables},
        [=, &c](Backend& b) { b.gate_add_norm(c, h, y, gate, rows, next, n); });
}

// ---- rotary embedding -------------------------------------------------------------------------------------------

void rope(Ctx& c, const Heads& x, const Rope& rope) {
  require_rope(x, rope);
  c.run({"rope", 3.0 * static_cast<double>(x.size()), 2 * x.bytes()}, [=, &c](Backend& b) { b.rope(c, x, rope); });
}

void norm_rope(Ctx& c, const Heads& x, const Tensor& w, float eps, const Rope* rope, const HeadParts& out,
               const RowSquares& whole) {
  require_parts("norm_rope", x, out);
  const int64_t columns = x.heads * x.width;
  require(w.rank() == 1 && (w.size() == columns || w.size() == x.width), "norm_rope: w is ", w.shape(), " but x has ",
          x.heads, " heads of ", x.width);
  require_whole("norm_rope", whole, x.tokens, columns);
  require(!whole.sums.defined() || w.size() == columns, "norm_rope: w is ", w.shape(), " for each of ", x.heads,
          " heads, but sums of squares are given for all of them together");
  if (!c.traits().fused_glue) return compose::norm_rope(c, x, w, eps, rope, out, whole);
  if (rope) require_rope(x, *rope);
  const Rope tables = rope ? *rope : Rope{};
  c.run({"norm_rope", 7.0 * static_cast<double>(x.size()), x.bytes() + out.bytes() + bytes(w, whole.sums)},
        [=, &c, rotate = rope != nullptr](Backend& b) { b.norm_rope(c, x, w, eps, whole, tables, rotate, out); });
}

void copy_heads(Ctx& c, const Heads& from, const HeadParts& to) {
  require_parts("copy_heads", from, to);
  for (const auto& [part, first] : to.parts) copy_heads(c, slice_heads(from, first, first + part.heads), part);
}

void copy_heads(Ctx& c, const Heads& from, const Heads& to) {
  require_same_heads("copy_heads", from, to);
  require(from.dtype() == to.dtype(), "copy_heads: from ", from.dtype(), " to ", to.dtype());
  c.run({"copy_heads", 0, 2 * from.bytes()}, [=, &c](Backend& b) { b.copy_heads(c, from, to); });
}

// ---- element-wise and small -------------------------------------------------------------------------------------

Tensor silu(Ctx& c, const Tensor& x) {
  require_compute("silu", x);
  const Tensor y = c.empty_like(x);
  c.run({"silu", 4 * elements(x), bytes(x, y)}, [=, &c](Backend& b) { b.silu(c, x, y); });
  return y;
}

Tensor gated_gelu(Ctx& c, const Tensor& a, const Tensor& b) {
  require_compute("gated_gelu", a);
  require_like("gated_gelu", "b", b, a.shape(), a.dtype());
  const Tensor y = c.empty_like(a);
  c.run({"gated_gelu", 9 * elements(a), bytes(a, b, y)}, [=, &c](Backend& k) { k.gated_gelu(c, a, b, y); });
  return y;
}

void add(Ctx& c, const Tensor& into, const Tensor& x) {
  require_compute("add", into);
  require_compute("add", x);
  require(into.size() == x.size(), "add: ", x.shape(), " to ", into.shape());
  c.run({"add", elements(x), 2 * into.bytes() + x.bytes()}, [=, &c](Backend& b) { b.add(c, into, x); });
}

Tensor cast(Ctx& c, const Tensor& x, DType out) {
  require_compute("cast", x);
  require(is_compute(out), "cast: to ", out, ", fp32 or bf16 is needed");
  const Tensor y = c.empty(x.shape(), out);
  c.run({"cast", 0, bytes(x, y)}, [=, &c](Backend& b) { b.cast(c, x, y); });
  return y;
}

void copy(Ctx& c, const Tensor& from, const Tensor& to) {
  require_like("copy", "the target", to, from.shape(), from.dtype());
  c.run({"copy", 0, bytes(from, to)}, [=, &c](Backend& b) { b.copy(c, from, to); });
}

void fill(Ctx& c, const Tensor& x, float value) {
  require_compute("fill", x);
  c.run({"fill", 0, x.bytes()}, [=, &c](Backend& b) { b.fill(c, x, value); });
}

Tensor embedding(Ctx& c, const Tensor& table, const Tensor& ids) {
  require(table.rank() == 2 && is_compute(table.dtype()), "embedding: the table is ", table.shape(), " ",
          table.dtype());
  require(ids.rank() == 1 && ids.dtype() == DType::i32, "embedding: ids are ", ids.shape(), " ", ids.dtype());
  const Tensor y = c.empty({ids.dim(0), table.dim(1)}, table.dtype());
  c.run({"embedding", 0, 2 * bytes(y) + bytes(ids)}, [=, &c](Backend& b) { b.embedding(c, table, ids, y); });
  return y;
}

Tensor timestep_embed(Ctx& c, const Tensor& t, int64_t dim) {
  require(t.rank() == 1 && t.dtype() == DType::f32, "timestep_embed: t is ", t.shape(), " ", t.dtype());
  require(dim > 0 && dim % 2 == 0, "timestep_embed: width ", dim, " is not even");
  const Tensor y = c.empty({t.dim(0), dim}, DType::f32);
  c.run({"timestep_embed", 2 * elements(y), bytes(t, y)}, [=, &c](Backend& b) { b.timestep_embed(c, t, y); });
  return y;
}

Tensor value_range(Ctx& c, const Tensor& x) {
  require_compute("value_range", x);
  const Tensor y = c.empty({3}, DType::f32);
  c.run({"value_range", elements(x), bytes(x, y)}, [=, &c](Backend& b) { b.value_range(c, x, y); });
  return y;
}

// ---- latents and patches ----------------------------------------------------------------------------------------

Tensor patchify(Ctx& c, const Tensor& x, int64_t ph, int64_t pw, DType out) {
  require_compute("patchify", x);
  require(x.rank() == 4 && x.dim(1) % ph == 0 && x.dim(2) % pw == 0, "patchify: ", x.shape(), " in patches of ", ph,
          "x", pw);
  const Tensor y = c.empty({x.dim(0) * (x.dim(1) / ph) * (x.dim(2) / pw), ph * pw * x.dim(3)}, out);
  c.run({"patchify", 0, bytes(x, y)}, [=, &c](Backend& b) { b.patchify(c, x, ph, pw, y); });
  return y;
}

Tensor unpatchify(Ctx& c, const Tensor& x, int64_t t, int64_t h, int64_t w, int64_t ph, int64_t pw) {
  require_compute("unpatchify", x);
  require(
      x.rank() == 2 && h % ph == 0 && w % pw == 0 && x.dim(0) == t * (h / ph) * (w / pw) && x.dim(1) % (ph * pw) == 0,
      "unpatchify: ", x.shape(), " to ", t, "x", h, "x", w, " in patches of ", ph, "x", pw);
  const Tensor y = c.empty({t, h, w, x.dim(1) / (ph * pw)}, DType::f32);
  c.run({"unpatchify", 0, bytes(x, y)}, [=, &c](Backend& b) { b.unpatchify(c, x, ph, pw, y); });
  return y;
}

Tensor affine(Ctx& c, const Tensor& x, const Tensor& scale, const Tensor& shift, DType out) {
  require_compute("affine", x);
  require(scale.defined() && shift.defined(), "affine: scale and shift are both needed");
  require_channels("affine", "scale", scale, x.dim(-1));
  require_channels("affine", "shift", shift, x.dim(-1));
  const Tensor y = c.empty(x.shape(), out);
  c.run({"affine", 2 * elements(x), bytes(x, scale, shift, y)},
        [=, &c](Backend& b) { b.affine(c, x, scale, shift, y); });
  return y;
}

// ---- convolution (VAE) ------------------------------------------------------------------------------------------

namespace {

Shape conv_shape(const Tensor& x, const Tensor& w, const ConvOptions& o) {
  require_compute("conv", x);
  require(x.rank() == 4 && w.rank() == 5 && x.dim(3) == w.dim(4) && x.dtype() == w.dtype(), "conv: x is ", x.shape(),
          " ", x.dtype(), " but w is ", w.shape(), " ", w.dtype());
  const int64_t rows = x.dim(1) + o.top + o.bottom - w.dim(2), columns = x.dim(2) + o.left + o.right - w.dim(3);
  const int64_t frames = x.dim(0) - w.dim(1) + 1;
  require(frames > 0 && rows >= 0 && columns >= 0 && o.stride > 0, "conv: x ", x.shape(), " is smaller than w ",
          w.shape());
  return {frames, rows / o.stride + 1, columns / o.stride + 1, w.dim(0)};
}

}  // namespace

Tensor conv(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, const ConvOptions& o, const Tensor& add) {
  const Tensor y = c.empty(conv_shape(x, w, o), x.dtype());
  conv_into(c, x, w, b, o, add, y);
  return y;
}

void conv_into(Ctx& c, const Tensor& x, const Tensor& w, const Tensor& b, const ConvOptions& o, const Tensor& add,
               const Tensor& y) {
  require_like("conv", "y", y, conv_shape(x, w, o), x.dtype());
  require_channels("conv", "b", b, w.dim(0));
  if (add.defined()) require_like("conv", "add", add, y.shape(), y.dtype());
  const double flops = 2 * elements(y) * static_cast<double>(w.size() / std::max<int64_t>(w.dim(0), 1));
  c.run({"conv", flops, bytes(x, w, b, add, y)}, [=, &c](Backend& k) { k.conv(c, x, w, b, o, add, y); });
}

Tensor corner_weights(Ctx& c, const Tensor& w, DType out, Region& region) {
  require_compute("corner_weights", w);
  require(w.rank() == 5 && w.dim(1) == 1 && w.dim(2) == 3 && w.dim(3) == 3, "corner_weights: w is ", w.shape());
  const Tensor y = c.empty({2, 2 * w.dim(0), 1, 2, 2, w.dim(4)}, out, region);
  c.run({"corner_weights", 4 * elements(w), bytes(w, y)}, [=, &c](Backend& b) { b.corner_weights(c, w, y); });
  return y;
}

void channel_norm(Ctx& c, const Tensor& x, const Tensor& gamma, bool silu, const Tensor& y) {
  require_compute("channel_norm", x);
  require(gamma.defined(), "channel_norm: no gamma given");
  require_channels("channel_norm", "gamma", gamma, x.dim(-1));
  require_like("channel_norm", "y", y, x.shape(), x.dtype());
  c.run({"channel_norm", (silu ? 8 : 4) * elements(x), bytes(x, gamma, y)},
        [=, &c](Backend& b) { b.channel_norm(c, x, gamma, silu, y); });
}

void add_channel_norm(Ctx& c, const Tensor& x, const Tensor& more, const Tensor& gamma, bool silu, const Tensor& y) {
  require_like("add_channel_norm", "more", more, x.shape(), x.dtype());
  if (!c.traits().fused_glue) return compose::add_channel_norm(c, x, more, gamma, silu, y);
  require_compute("add_channel_norm", x);
  require(gamma.defined(), "add_channel_norm: no gamma given");
  require_channels("add_channel_norm", "gamma", gamma, x.dim(-1));
  require_like("add_channel_norm", "y", y, x.shape(), x.dtype());
  c.run({"add_channel_norm", (silu ? 9 : 5) * elements(x), 2 * x.bytes() + bytes(more, gamma, y)},
        [=, &c](Backend& b) { b.add_channel_norm(c, x, more, gamma, silu, y); });
}

Tensor interleave_frames(Ctx& c, const Tensor& x) {
  require(x.rank() == 4 && x.dim(3) % 2 == 0, "interleave_frames: x is ", x.shape());
  const Tensor y = c.empty({2 * x.dim(0), x.dim(1), x.dim(2), x.dim(3) / 2}, x.dtype());
  c.run({"interleave_frames", 0, bytes(x, y)}, [=, &c](Backend& b) { b.interleave_frames(c, x, y); });
  return y;
}

Tensor to_pixels(Ctx& c, const Tensor& x) {
  require_compute("to_pixels", x);
  const Tensor y = c.empty(x.shape(), DType::u8);
  c.run({"to_pixels", 3 * elements(x), bytes(x, y)}, [=, &c](Backend& b) { b.to_pixels(c, x, y); });
  return y;
}

// ---- guidance and scheduler -------------------------------------------------------------------------------------

Tensor guide(Ctx& c, const Tensor& cond, const Tensor& uncond, const Tensor& scale) {
  require_compute("guide", cond);
  require_like("guide", "uncond", uncond, cond.shape(), cond.dtype());
  require_like("guide", "scale", scale, {1}, DType::f32);
  const Tensor v = c.empty_like(cond);
  c.run({"guide", 3 * elements(v), bytes(cond, uncond, v)},
        [=, &c](Backend& b) { b.guide(c, cond, uncond, scale, v); });
  return v;
}

void multistep(Ctx& c, const MultistepState& s, const Tensor& v, const Tensor& k) {
  for (const Tensor& part : {s.x, s.last, s.m1, s.m2, v})
    require_like("multistep", "an operand", part, s.x.shape(), DType::f32);
  require_like("multistep", "k", k, {multistep_coefficients}, DType::f32);
  c.run({"multistep", 17 * elements(v), bytes(s.x, s.last, s.m1, s.m2, v) * 2 - v.bytes()},
        [=, &c](Backend& b) { b.multistep(c, s, v, k); });
}

void guided_multistep(Ctx& c, const MultistepState& s, const Predictions& p, const Tensor& k, const Tensor& bad) {
  const char* const op = "guided_multistep";
  require_compute(op, p.cond);
  require(p.guided() == p.scale.defined(), op, ": uncond and scale are needed together");
  if (p.guided()) {
    require_like(op, "uncond", p.uncond, p.cond.shape(), p.cond.dtype());
    require_like(op, "scale", p.scale, {1}, DType::f32);
  }
  for (const Tensor& part : {s.x, s.last, s.m1, s.m2})
    require_like(op, "a part of the state", part, p.cond.shape(), DType::f32);
  require_like(op, "k", k, {multistep_coefficients}, DType::f32);
  require_like(op, "bad", bad, {1}, DType::f32);
  if (!c.traits().fused_glue) return compose::guided_multistep(c, s, p, k, bad);
  c.run({op, (p.guided() ? 21 : 18) * elements(s.x), bytes(s.x, s.last, s.m1, s.m2) * 2 + bytes(p.cond, p.uncond)},
        [=, &c](Backend& b) { b.guided_multistep(c, s, p, k, bad); });
}

// ---- host.h ---------------------------------------------------------------------------------------------------------

std::shared_ptr<std::byte> host_memory(Ctx& c, size_t bytes) {
  require(!c.dry(), "host_memory: a dry context has none");
  return c.rank().backend->host_memory(bytes);
}

}  // namespace zoetrope
