#include "nn/loader.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/dry_rank.h"
#include "support/words.h"

namespace zoetrope::nn {
namespace {

// Tensors in memory; notes what was read.
struct Memory : Parameters {
  Listing shapes;
  std::map<std::string, std::vector<float>> values;
  std::vector<std::string> reads;

  void put(const std::string& key, const Shape& shape, float first) {
    shapes[key] = shape;
    for (int64_t i = 0; i < shape.size(); ++i) values[key].push_back(first == 0 ? 0 : first + static_cast<float>(i));
  }
  const Listing* listing() const override { return &shapes; }
  bool only_zeros(const std::string& key) const override {
    return std::ranges::all_of(values.at(key), [](float value) { return value == 0; });
  }
  void read(const std::string& key, const Shape& shape, const Slice& part, const Tensor& to) override {
    reads.push_back(key);
    for (int64_t i = 0; i < to.size(); ++i) {
      const int64_t width = part.of(shape).size() / part.of(shape)[0], row = i / width, column = i % width;
      const int64_t at = part.axis == 0 ? part.from * width + i : row * shape[1] + part.from + column;
      const float value = values.at(key)[static_cast<size_t>(at)];
      if (to.dtype() == DType::bf16)
        to.data<bf16>()[i] = bf16(value);
      else
        to.data<float>()[i] = value;
    }
  }
};

// The loader only asks whether there is a back end; it never calls it.
struct LoaderTest : testing::Test {
  Pool pool{1};
  Rank rank;
  int not_a_backend = 0;
  Memory memory;

  Ctx live() {
    rank.pool = &pool;
    rank.backend = reinterpret_cast<Backend*>(&not_a_backend);
    return Ctx(rank);
  }
};

std::vector<float> floats(const Tensor& x) { return {x.span<float>().begin(), x.span<float>().end()}; }

TEST_F(LoaderTest, ListsAllFaultsInOneLineBeforeItTakesMemory) {
  Ctx c = live();
  memory.put("c", {2}, 1);
  memory.put("d", {2, 3}, 1);
  memory.put("spare", {1}, 1);
  memory.put("blocks.0.norm_added_q.weight", {1}, 1);
  Tensor a, b, d;
  Loader load(c, "transformer", memory, DType::f32);
  load.tensor(a, "a", {4});
  load.tensor(b, "b", {4});
  load.tensor(d, "d", {3, 2});
  load.known({"spare", {1}});
  load.ignore("norm_added_q");
  EXPECT_EQ(words([&] { load.load(); }),
            "transformer: 2 missing (a, b), 1 unknown (c), 1 of another shape (d is [2, 3], should be [3, 2])");
  EXPECT_EQ(rank.weights.count("transformer"), 0u);
  EXPECT_TRUE(memory.reads.empty());
}

TEST_F(LoaderTest, KnownTensorsAreCheckedButNotRead) {
  Ctx c = live();
  memory.put("encoder.w", {2}, 1);
  Loader load(c, "vae", memory, DType::f32);
  load.known({"encoder.w", {3}});
  load.known({"encoder.absent", {3}});
  EXPECT_EQ(words([&] { load.load(); }), "vae: 1 of another shape (encoder.w is [2], should be [3])");
}

TEST_F(LoaderTest, StacksPartsByRows) {
  Ctx c = live();
  memory.put("q", {2, 2}, 1), memory.put("k", {1, 2}, 10), memory.put("v", {1, 2}, 20);
  Tensor w;
  Loader load(c, "t", memory, DType::f32);
  load.stacked(w, {{"q", {2, 2}}, {"k", {1, 2}}, {"v", {1, 2}}});
  load.load();
  EXPECT_EQ(w.shape(), Shape({4, 2}));
  EXPECT_EQ(floats(w), (std::vector<float>{1, 2, 3, 4, 10, 11, 20, 21}));
  EXPECT_EQ(load.used(), (std::vector<Entry>{{"q", {2, 2}}, {"k", {1, 2}}, {"v", {1, 2}}}));
}

TEST_F(LoaderTest, ReadsTheSamePartOfEachAndColumnsOfAMatrix) {
  Ctx c = live();
  memory.put("q", {4, 2}, 1), memory.put("k", {4, 2}, 10), memory.put("o", {2, 4}, 20), memory.put("b", {4}, 30);
  Tensor w, o, b;
  std::vector<float> host;
  Loader load(c, "t", memory, DType::f32);
  load.stacked(w, {{"q", {4, 2}}, {"k", {4, 2}}}, {0, 1, 3});
  load.part(o, "o", {2, 4}, {1, 1, 3});
  load.part(b, "b", {4}, {0, 1, 3});
  load.host(host, "o", {2, 4}, {1, 3, 4});
  load.load();
  EXPECT_EQ(w.shape(), Shape({4, 2}));
  EXPECT_EQ(floats(w), (std::vector<float>{3, 4, 5, 6, 12, 13, 14, 15}));
  EXPECT_EQ(o.shape(), Shape({2, 2}));
  EXPECT_EQ(floats(o), (std::vector<float>{21, 22, 25, 26}));
  EXPECT_EQ(floats(b), (std::vector<float>{31, 32}));
  EXPECT_EQ(host, (std::vector<float>{23, 27}));
}

TEST_F(LoaderTest, WhatAnotherRankReadsMustBeThereAsWell) {
  Ctx c = live();
  Loader load(c, "t", memory, DType::f32);
  load.expect("bias", {4});
  EXPECT_EQ(words([&] { load.load(); }), "t: 1 missing (bias)");
  memory.put("bias", {4}, 1);
  load.load();
  EXPECT_TRUE(memory.reads.empty());
  EXPECT_EQ(load.used(), (std::vector<Entry>{{"bias", {4}}}));
}

TEST_F(LoaderTest, KeepsWholeNamePartsInFp32) {
  Ctx c = live();
  for (const char* key : {"blocks.0.norm2.weight", "blocks.0.norm_q.weight", "norm20.weight"})
    memory.put(key, {1}, 1.001f);
  Tensor kept, q, other;
  Loader load(c, "t", memory, DType::bf16, {"norm2"});
  load.tensor(kept, "blocks.0.norm2.weight", {1});
  load.tensor(q, "blocks.0.norm_q.weight", {1});
  load.tensor(other, "norm20.weight", {1});
  load.load();
  EXPECT_EQ(kept.dtype(), DType::f32);
  EXPECT_EQ(q.dtype(), DType::bf16);
  EXPECT_EQ(other.dtype(), DType::bf16);
  EXPECT_EQ(kept.data<float>()[0], 1.001f);
}

TEST_F(LoaderTest, ConvolutionsBecomeChannelsLastAndPadded) {
  rank.traits.channel_multiple = 4;
  Ctx c = live();
  memory.put("conv.weight", {2, 3, 1, 1, 2}, 1);  // [O, I, kt, kh, kw]
  memory.put("conv.bias", {2}, 50);
  Tensor w, b;
  Loader load(c, "vae", memory, DType::f32);
  load.conv(w, b, "conv", {2, 3, 1, 1, 2});
  load.load();
  EXPECT_EQ(w.shape(), Shape({4, 1, 1, 2, 4}));
  EXPECT_EQ(floats(w.row(0)), (std::vector<float>{1, 3, 5, 0, 2, 4, 6, 0}));
  EXPECT_EQ(floats(w.row(1)), (std::vector<float>{7, 9, 11, 0, 8, 10, 12, 0}));
  EXPECT_EQ(floats(w.row(2)), std::vector<float>(8, 0.0f));
  EXPECT_EQ(floats(b), (std::vector<float>{50, 51, 0, 0}));
}

TEST_F(LoaderTest, PatchColumnsFollowThePixels) {
  Ctx c = live();
  memory.put("p.weight", {1, 3, 1, 2, 2}, 1);  // c*4 + i*2 + j
  Tensor w;
  Loader load(c, "t", memory, DType::f32);
  load.patch(w, "p.weight", {1, 3, 1, 2, 2});
  load.load();
  EXPECT_EQ(w.shape(), Shape({1, 12}));  // (i*2 + j)*3 + c
  EXPECT_EQ(floats(w), (std::vector<float>{1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12}));
}

TEST_F(LoaderTest, EmbeddingTakesTheNameThatHoldsNumbersAndItsOwnRows) {
  Ctx c = live();
  memory.put("shared.weight", {5, 2}, 0);
  memory.put("encoder.embed_tokens.weight", {5, 2}, 1);
  Tensor table;
  Loader load(c, "text_encoder", memory, DType::f32);
  load.embedding(table, {"shared.weight", "encoder.embed_tokens.weight"}, 4, 2);
  load.load();
  EXPECT_EQ(table.shape(), Shape({5, 2}));
  EXPECT_EQ(table.data<float>()[3], 4);
}

TEST_F(LoaderTest, RefusesAnEmbeddingOfZeros) {
  Ctx real = live();
  DryRank dry;  // found before memory is taken and anything is read
  memory.put("encoder.embed_tokens.weight", {5, 2}, 0);
  Tensor table;
  for (Ctx* c : {&dry.c, &real}) {
    Loader load(*c, "text_encoder", memory, DType::bf16);
    load.embedding(table, {"shared.weight", "encoder.embed_tokens.weight"}, 4, 2);
    EXPECT_EQ(words([&] { load.load(); }),
              "text_encoder: the embedding table holds only zeros (1 tried (encoder.embed_tokens.weight)); the file "
              "was saved without it, download it again");
  }
  EXPECT_TRUE(memory.reads.empty());
}

TEST_F(LoaderTest, NamesTheFirstEmbeddingWhereNoneIsThere) {
  Ctx c = live();
  Tensor table;
  Loader load(c, "text_encoder", memory, DType::f32);
  load.embedding(table, {"shared.weight", "encoder.embed_tokens.weight"}, 4, 2);
  EXPECT_EQ(words([&] { load.load(); }), "text_encoder: 1 missing (shared.weight)");
}

// Asks for a stop at its first read, and writes nothing.
struct Stopping : Memory {
  std::stop_source stop;
  bool only_zeros(const std::string&) const override { return false; }
  void read(const std::string& key, const Shape&, const Slice&, const Tensor&) override {
    reads.push_back(key);
    stop.request_stop();
  }
};

TEST_F(LoaderTest, EndsBetweenTensorsOnceAStopWasAskedFor) {
  Ctx c = live();
  Stopping source;
  source.shapes = {{"a", {4}}, {"b", {4}}};
  const StopScope job(rank, source.stop.get_token());
  Tensor a, b;
  Loader load(c, "t", source, DType::f32);
  load.tensor(a, "a", {4});
  load.tensor(b, "b", {4});
  EXPECT_EQ(words([&] { load.load(); }), "cancelled");
  EXPECT_EQ(source.reads, std::vector<std::string>{"a"});
}

TEST_F(LoaderTest, EndsWithinALargeTensor) {
  Ctx c = live();
  Stopping source;
  source.shapes["shared.weight"] = {1 << 17, 1 << 9};  // 256 MiB that nobody touches
  const StopScope job(rank, source.stop.get_token());
  Tensor table;
  Loader load(c, "t", source, DType::f32);
  load.embedding(table, {"shared.weight"}, 1 << 17, 1 << 9);
  EXPECT_EQ(words([&] { load.load(); }), "cancelled");
  EXPECT_EQ(source.reads.size(), 1u);
}

// A large table read in blocks is the same table.
TEST_F(LoaderTest, ReadsALargeTensorInBlocksOfRows) {
  struct Rows : Memory {
    void read(const std::string& key, const Shape& shape, const Slice& part, const Tensor& to) override {
      reads.push_back(key);
      ASSERT_EQ(to.shape(), part.of(shape));
      for (int64_t r = 0; r < to.dim(0); ++r) to.row(r).data<float>()[0] = static_cast<float>(part.from + r);
    }
  } source;
  Ctx c = live();
  const int64_t rows = 33, width = 1 << 20;  // of 4 MiB
  source.shapes["w"] = {rows, width};
  Tensor w;
  Loader load(c, "t", source, DType::f32);
  load.tensor(w, "w", {rows, width}, {rows * width});
  load.load();
  EXPECT_EQ(source.reads.size(), 3u);
  for (int64_t r = 0; r < rows; ++r) EXPECT_EQ(w.data<float>()[r * width], static_cast<float>(r));
}

TEST_F(LoaderTest, ADryContextCountsAndReadsNothing) {
  DryRank c;
  memory.shapes["w"] = {1 << 20, 1 << 12};
  Tensor w;
  Loader load(c, "t", memory, DType::bf16);
  load.tensor(w, "w", {1 << 20, 1 << 12});
  load.load();
  EXPECT_EQ(c.c.weights("t").used(), size_t{1} << 33);
  EXPECT_TRUE(memory.reads.empty());
}

}  // namespace
}  // namespace zoetrope::nn
