#include <unistd.h>

#include <filesystem>

#include "io/safetensors.h"
#include "nn/causal_conv.h"
#include "nn/linear.h"
#include "nn/random.h"
#include "nn/rope.h"
#include "nn/stored.h"
#include "support/cpu_ctx.h"
#include "support/words.h"

namespace zoetrope::nn {
namespace {

TEST(CausalConv, AnyCutOfTheFramesGivesTheSameBits) {
  CpuCtx cpu;
  Ctx& c = cpu.c;
  Random weights(1);
  CausalConv conv;
  Loader loader(c, "vae", weights, DType::f32);
  load(loader, conv, "conv", {6, 4, 3, 3, 3});
  loader.load();
  const Tensor x = cpu.random({7, 5, 3, 4}, 2);
  const auto run = [&](const std::vector<int64_t>& chunks) {
    const Tensor y = c.empty({7, 5, 3, 6}, DType::f32);
    Past past;
    int64_t from = 0;
    for (const int64_t t : chunks) {
      const Tensor frames = x.rows(from, from + t);
      for (int64_t i = 0; i < t; ++i) {
        copy(c, frames.rows(i, i + 1), conv.next(c, frames.shape(), past));
        conv.run(c, past, y.rows(from + i, from + i + 1));
      }
      from += t;
    }
    EXPECT_EQ(past.ring.shape(), Shape({3, 5, 3, 4}));
    return y;
  };
  const Tensor whole = run({7});
  expect_same_bits(run({1, 1, 1, 1, 1, 1, 1}), whole);
  expect_same_bits(run({1, 4, 2}), whole);
  const Tensor behind = c.empty({9, 5, 3, 4}, DType::f32);  // two frames of zeros, then x: all frames in one call
  fill(c, behind, 0);
  copy(c, x, behind.rows(2, 9));
  expect_near(whole, values_of(zoetrope::conv(c, behind, conv.w, conv.b, conv.options(), {})), 2e-6);
}

TEST(CausalConv, SeesZerosBeforeTheFirstFrame) {
  CpuCtx cpu;
  Ctx& c = cpu.c;
  CausalConv conv;  // time only, y_t = x_{t-2} + 10 x_{t-1} + 100 x_t
  conv.w = cpu.tensor({1, 3, 1, 1, 1}, std::vector<float>{1, 10, 100});
  conv.b = cpu.tensor({1}, std::vector<float>{0});
  const Tensor x = cpu.tensor({3, 1, 1, 1}, std::vector<float>{1, 2, 3});
  const Tensor y = cpu.tensor({3, 1, 1, 1}, std::vector<float>{0, 0, 0});
  Past past;
  for (int64_t i = 0; i < 3; ++i) {
    copy(c, x.rows(i, i + 1), conv.next(c, x.shape(), past));
    conv.run(c, past, y.rows(i, i + 1));
  }
  EXPECT_EQ(values_of(y), (std::vector<float>{100, 210, 321}));
  copy(c, x.rows(0, 1), conv.next(c, x.shape(), past));  // over the oldest
  EXPECT_EQ(values_of(past.ring), (std::vector<float>{1, 2, 3}));
}

// Values of the published model's head width, 128: 44 elements for time, 42 each for rows and columns.
TEST(RopeTables, MatchTheFormula) {
  const auto time = rope_table(2, 44, 10000), rows = rope_table(4, 42, 10000);
  const auto at = [](const std::vector<float>& table, int64_t width, int64_t position, int64_t pair) {
    return &table[static_cast<size_t>(position * width + 2 * pair)];
  };
  EXPECT_FLOAT_EQ(at(time, 44, 1, 1)[0], 0.791257718f);
  EXPECT_FLOAT_EQ(at(time, 44, 1, 1)[1], 0.611482807f);
  EXPECT_FLOAT_EQ(at(rows, 42, 2, 0)[0], -0.41614684f);
  EXPECT_FLOAT_EQ(at(rows, 42, 2, 1)[1], 0.96080551f);
  EXPECT_FLOAT_EQ(at(rows, 42, 3, 0)[0], -0.98999250f);
}

TEST(RopeTables, RefuseAGridBeyondThem) {
  CpuCtx cpu;
  Random weights(0);
  Loader loader(cpu.c, "t", weights, DType::f32);
  RopeTables tables;
  tables.load(loader, {4, 2, 2}, 8);
  loader.load();
  EXPECT_EQ(tables.grid(3, 8, 1).axis[1].shape(), Shape({8, 1, 2}));
  EXPECT_EQ(words([&] { tables.grid(3, 9, 1); }),
            "rope: a grid of 3x9x1 tokens has an axis longer than 8, the most this model knows");
}

TEST(Linear, StackedRowsAreTheSingleProducts) {
  CpuCtx cpu;
  Ctx& c = cpu.c;
  Random weights(5);
  Linear q, k, both;
  Loader loader(c, "t", weights, DType::f32);
  load(loader, q, "q", 6, 4);
  load(loader, k, "k", 6, 4);
  load_stacked(loader, both, {"q", "k"}, 6, 4);
  loader.load();
  const Tensor x = cpu.random({3, 4}, 1);
  const auto left = values_of(q(c, x)), right = values_of(k(c, x)), all = values_of(both(c, x));
  for (size_t row = 0; row < 3; ++row)
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(all[row * 12 + i], left[row * 6 + i]);
      EXPECT_EQ(all[row * 12 + 6 + i], right[row * 6 + i]);
    }
}

TEST(Stored, ReadsWholeTensorsRowsAndColumns) {
  const auto file = std::filesystem::temp_directory_path() / cat("zoetrope-stored-", getpid(), ".safetensors");
  std::vector<float> values(12);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  write_safetensors(file, {{"w", {values.data(), {3, 4}, DType::f32}}});
  const Checkpoint checkpoint(file);
  Stored stored(checkpoint);
  const auto read = [&](const Slice& part) {
    std::vector<float> out(static_cast<size_t>(part.of({3, 4}).size()));
    stored.read("w", {3, 4}, part, {out.data(), part.of({3, 4}), DType::f32});
    return out;
  };
  EXPECT_EQ(stored.listing()->at("w"), Shape({3, 4}));
  EXPECT_EQ(read({}), values);
  EXPECT_EQ(read({0, 1, 2}), (std::vector<float>{4, 5, 6, 7}));
  EXPECT_EQ(read({1, 1, 3}), (std::vector<float>{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(words([&] { read({1, 1, 5}); }), "slice: [1, 5) of axis 1 of [3, 4]");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace zoetrope::nn
