// Ops over rows at addresses, strides and widths that do not suit accesses of 16 bytes: they have the bits of rows that
// do, change nothing beside their results, and take no rows at all.
#include "ops/ops.h"
#include "support/device_ctx.h"

namespace zoetrope {
namespace {

constexpr DType types[] = {DType::f32, DType::bf16};
constexpr int64_t edge = 8;  // elements on both sides of a tensor

// A copy of a tensor, `by` elements past an aligned address, in a room that is poisoned around it.
struct Placed {
  Placed(DeviceCtx& dev, const Tensor& from, int64_t by)
      : before(edge + by),
        room(dev.poisoned({before + from.size() + edge}, from.dtype())),
        x(static_cast<std::byte*>(room.raw()) + before * bytes_of(from.dtype()), from.shape(), from.dtype()) {
    copy(dev, from, x);
  }
  void expect_edges_untouched() const {
    const std::vector<float> values = values_of(room);
    const auto from = static_cast<size_t>(before), to = static_cast<size_t>(before + x.size());
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE((i >= from && i < to) || std::isnan(values[i])) << "element " << i << " of " << values.size();
  }

  int64_t before;
  Tensor room, x;
};

using Operands = std::vector<Tensor>;

// Runs f on copies of the operands, inputs and results alike: all aligned, then each in turn one element further on.
template <class F>
void expect_same_at_any_address(DeviceCtx& dev, const Operands& operands, F f) {
  Scope all(dev.c.request());
  const auto run = [&](size_t moved) {
    std::vector<Placed> placed;
    Operands now;
    for (size_t i = 0; i < operands.size(); ++i)
      now.push_back(placed.emplace_back(dev, operands[i], i == moved ? 1 : 0).x);
    Scope scratch(dev.c.scratch());
    f(now);
    for (const Placed& one : placed) one.expect_edges_untouched();
    return now;
  };
  const Operands want = run(operands.size());
  for (size_t moved = 0; moved < operands.size(); ++moved) {
    SCOPED_TRACE(cat("operand ", moved, " moved"));
    const Operands got = run(moved);
    for (size_t i = 0; i < got.size(); ++i) expect_same_bits(got[i], want[i]);
  }
}

// Short and long rows, in eights or not; channels of the VAE, shares of a row on a mesh.
constexpr int64_t widths[] = {8, 97, 96, 384, 512, 513, 520, 1280, 5120};

template <class F>
void for_rows(F f) {
  for (const DType type : types)
    for (const DType out : types)
      for (const int64_t width : widths) {
        SCOPED_TRACE(cat(type, " to ", out, " width ", width));
        f(width, type, out);
      }
}

TEST(Rows, NormsHaveTheSameBitsAtAnyAddress) {
  DeviceCtx dev;
  for_rows([&](int64_t width, DType type, DType out) {
    Scope once(dev.c.request());
    const Tensor x = dev.random({5, width}, 1, type, 3), w = dev.random({width}, 2), b = dev.random({width}, 3, out);
    const Tensor y = dev.poisoned({5, width}, out);
    expect_same_at_any_address(dev, {x, w, y},
                               [&](const Operands& o) { copy(dev, rms_norm(dev, o[0], o[1], 1e-6f, out), o[2]); });
    expect_same_at_any_address(
        dev, {x, w, b, y}, [&](const Operands& o) { copy(dev, layer_norm(dev, o[0], o[1], o[2], 1e-6f, out), o[3]); });
    expect_same_at_any_address(dev, {x, b, y}, [&](const Operands& o) {
      if (type == out) channel_norm(dev, o[0], o[1], true, o[2]);
    });
  });
}

TEST(Rows, ModulationsHaveTheSameBitsAtAnyAddress) {
  DeviceCtx dev;
  const std::vector<int32_t> chosen{2, 0, 1, 1, 2};
  for_rows([&](int64_t width, DType type, DType out) {
    Scope once(dev.c.request());
    const Tensor x = dev.random({5, width}, 1, type, 3), y = dev.poisoned({5, width}, out);
    const Tensor shift = dev.random({3, width}, 4), scale = dev.random({3, width}, 5), rows = dev.ints(chosen);
    for (const Tensor& by : {rows, Tensor{}}) {
      expect_same_at_any_address(dev, {x, shift, scale, y}, [&](const Operands& o) {
        copy(dev, modulate(dev, o[0], {o[1], o[2], by}, out), o[3]);
      });
      expect_same_at_any_address(dev, {x, shift, scale, y}, [&](const Operands& o) {
        norm_modulate_into(dev, o[0], {o[1], o[2], by}, 1e-6f, o[3]);
      });
    }
  });
}

TEST(Rows, ResidualUpdatesHaveTheSameBitsAtAnyAddress) {
  DeviceCtx dev;
  const std::vector<int32_t> chosen{2, 0, 1, 1, 2};
  for_rows([&](int64_t width, DType type, DType out) {
    Scope once(dev.c.request());
    const Tensor h = dev.random({5, width}, 1), y = dev.random({5, width}, 2, type, 3),
                 gate = dev.random({3, width}, 3);
    const Tensor shift = dev.random({3, width}, 4), scale = dev.random({3, width}, 5),
                 n = dev.poisoned({5, width}, out);
    const Tensor w = dev.random({width}, 6), b = dev.random({width}, 7, out), rows = dev.ints(chosen);
    for (const Tensor& by : {rows, Tensor{}}) {
      expect_same_at_any_address(dev, {h, y, gate}, [&](const Operands& o) { gate_add(dev, o[0], o[1], o[2], by); });
      expect_same_at_any_address(dev, {h, y, gate, shift, scale, n}, [&](const Operands& o) {
        gate_add_norm(dev, o[0], o[1], o[2], by, {.eps = 1e-6f, .m = {o[3], o[4], by}}, o[5]);
      });
      expect_same_at_any_address(dev, {h, y, gate, w, b, n}, [&](const Operands& o) {
        gate_add_norm(dev, o[0], o[1], o[2], by, {1e-6f, o[3], o[4]}, o[5]);
      });
    }
    expect_same_at_any_address(
        dev, {h, y, n}, [&](const Operands& o) { gate_add_norm(dev, o[0], o[1], {}, {}, {.eps = 1e-6f}, o[2]); });
  });
}

// The gate's rows may be chosen while the modulation has one for all tokens, and the other way round.
TEST(Rows, OfTheGateAndOfTheNormAreChosenApart) {
  DeviceCtx dev;
  const std::vector<int32_t> one{2, 0, 1, 1, 2}, two{0, 0, 2, 1, 0};
  for (const int64_t width : {97, 5120})
    for (const auto& [gates, norms] :
         {std::pair{dev.ints(one), Tensor{}}, {Tensor{}, dev.ints(two)}, {dev.ints(one), dev.ints(two)}}) {
      Scope once(dev.c.request()), scratch(dev.c.scratch());
      const Tensor y = dev.random({5, width}, 2, DType::bf16), gate = dev.random({3, width}, 3);
      const Modulation m{dev.random({3, width}, 4), dev.random({3, width}, 5), norms};
      const Tensor h = dev.random({5, width}, 1), n = dev.poisoned({5, width}, DType::bf16);
      gate_add_norm(dev, h, y, gate, gates, {.eps = 1e-6f, .m = m}, n);
      const Tensor plain = dev.random({5, width}, 1);
      gate_add(dev, plain, y, gate, gates);
      expect_same_bits(h, plain);
      expect_same_bits(n, norm_modulate(dev, plain, m, 1e-6f, DType::bf16));
    }
}

TEST(Rows, MayBeNone) {
  DeviceCtx dev;
  const Tensor none = dev.tensor({0, 64}, {}), n = dev.tensor({0, 64}, {}), w = dev.random({64}, 1);
  const Tensor table = dev.random({1, 64}, 2);
  gate_add(dev, none, none, table, {});
  gate_add_norm(dev, none, none, table, {}, {1e-6f, w}, n);
  gate_add_norm(dev, none, none, table, {}, {.eps = 1e-6f, .m = {table, table, {}}}, n);
  norm_modulate_into(dev, none, {table, table, {}}, 1e-6f, n);
  EXPECT_EQ(layer_norm(dev, none, w, {}, 1e-6f, DType::bf16).shape(), (Shape{0, 64}));
  EXPECT_EQ(rms_norm(dev, none, w, 1e-6f, DType::bf16).shape(), (Shape{0, 64}));
  norm_rope(dev, as_heads(none, 8), w, 1e-6f, nullptr, as_heads(n, 8));
}

// ---- q and k ----------------------------------------------------------------------------------------------------

// A [2, 3, 4] grid of tokens for heads of any even width.
Rope grid(DeviceCtx& dev, int64_t width) {
  const int64_t pairs = width / 2, third = pairs / 3;
  return {{dev.random({2, pairs - 2 * third, 2}, 1), dev.random({3, third, 2}, 2), dev.random({4, third, 2}, 3)},
          RopeStyle::adjacent,
          15};
}

// Heads of the models' widths and of others, all normed together or each by itself, out of rows and into rows that
// begin anywhere.
TEST(Rows, OfHeadsAreNormedAndRotatedTheSameInAnyLayout) {
  DeviceCtx dev, plain(2, false);
  for (const DType type : types)
    for (const DType out : types)
      for (const auto& [heads, width] : {std::pair<int64_t, int64_t>{40, 128}, {13, 128}, {5, 64}, {9, 70}, {3, 6}})
        for (const bool together : {true, false}) {
          SCOPED_TRACE(cat(type, " to ", out, ", ", heads, " heads of ", width, together ? " together" : ""));
          Scope once(dev.c.request());
          const int64_t all = heads * width, tokens = 11;  // two of them past the grid
          const Rope tables = grid(dev, width);
          const Tensor w = dev.random({together ? all : width}, 4), x = dev.random({tokens, all}, 5, type, 2);
          const Tensor dense = dev.poisoned({tokens, all}, out), other = dev.poisoned({tokens, all}, out);
          norm_rope(dev, as_heads(x, width), w, 1e-6f, &tables, as_heads(dense, width));
          norm_rope(plain, as_heads(x, width), w, 1e-6f, &tables, as_heads(other, width));
          expect_same_bits(dense, other);
          for (const int64_t at : {8, 1})
            for (const int64_t more : {16, 11}) {
              const Tensor from = dev.poisoned({tokens, all + more}, type),
                           to = dev.poisoned({tokens, all + more}, out);
              copy_heads(dev, as_heads(x, width), as_heads(from, at, heads, width));
              norm_rope(dev, as_heads(from, at, heads, width), w, 1e-6f, &tables, as_heads(to, at, heads, width));
              const Tensor got = dev.poisoned({tokens, all}, out);
              copy_heads(dev, as_heads(to, at, heads, width), as_heads(got, width));
              expect_same_bits(got, dense);
              const std::vector<float> values = values_of(to);
              int64_t untouched = 0;
              for (const float v : values) untouched += std::isnan(v);
              EXPECT_EQ(untouched, tokens * more) << "at " << at << " of rows of " << all + more;
            }
        }
}

}  // namespace
}  // namespace zoetrope
