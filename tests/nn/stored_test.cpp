// A checkpoint in shards: what is wrong with a tensor is said with the name of the file that holds it.
#include "nn/stored.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/dry_rank.h"
#include "io/temp_folder.h"
#include "nn/loader.h"
#include "support/cpu_ctx.h"
#include "support/words.h"

namespace zoetrope::nn {
namespace {

void put_tensor(const std::filesystem::path& file, const std::string& name, std::vector<float> values) {
  write_safetensors(file, {{name, Tensor(values.data(), {static_cast<int64_t>(values.size())}, DType::f32)}});
}

struct Shards : TempFolder {
  Shards() {
    put_tensor(*this / "m-1.safetensors", "a", {1, 2});
    put_tensor(*this / "m-2.safetensors", "b", {3});
    put("model.safetensors.index.json", R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  }
};

TEST(Stored, FaultsNameTheirShard) {
  const Shards folder;
  const Checkpoint checkpoint(folder.path());
  Stored source(checkpoint);
  DryRank c;
  Tensor a, lost;
  Loader load(c, "vae", source, DType::f32);
  load.tensor(a, "a", {3});
  load.tensor(lost, "lost", {1});
  EXPECT_EQ(words([&] { load.load(); }),
            "vae: 1 missing (lost), 1 unknown (b in m-2.safetensors), 1 of another shape (a in m-1.safetensors is [2], "
            "should be [3])");
}

TEST(Stored, AlsoATableOfZeros) {
  const TempFolder folder;
  std::vector<float> zeros(6);
  for (const char* name : {"m-1", "m-2"})
    write_safetensors(folder / cat(name, ".safetensors"),
                      {{cat(name, ".table"), Tensor(zeros.data(), {3, 2}, DType::f32)}});
  folder.put("model.safetensors.index.json",
             R"({"weight_map":{"m-1.table":"m-1.safetensors","m-2.table":"m-2.safetensors"}})");
  const Checkpoint checkpoint(folder.path());
  Stored source(checkpoint);
  CpuCtx c(1);
  Tensor table;
  Loader load(c, "text_encoder", source, DType::f32);
  load.embedding(table, {"m-1.table", "m-2.table"}, 3, 2);
  EXPECT_EQ(words([&] { load.load(); }),
            "text_encoder: the embedding table holds only zeros (2 tried (m-1.table in m-1.safetensors, m-2.table in "
            "m-2.safetensors)); the file was saved without it, download it again");
}

TEST(Stored, SharesALargeTensorAmongThreads) {
  const TempFolder folder;
  std::vector<float> values(3'001'000), all(values.size()), some(2'000'000);
  std::iota(values.begin(), values.end(), 0.0f);
  write_safetensors(folder / "model.safetensors", {{"w", Tensor(values.data(), {3001, 1000}, DType::f32)}});
  const Checkpoint checkpoint(folder.path());
  Pool pool(3);
  Stored source(checkpoint, &pool);
  source.read("w", {3001, 1000}, {}, Tensor(all.data(), {3'001'000}, DType::f32));
  EXPECT_EQ(all, values);
  source.read("w", {3001, 1000}, {0, 1000, 3000}, Tensor(some.data(), {2000, 1000}, DType::f32));
  EXPECT_TRUE(std::equal(some.begin(), some.end(), values.begin() + 1'000'000));
}

TEST(Stored, OneFileNeedsNoName) {
  const TempFolder folder;
  put_tensor(folder / "model.safetensors", "a", {1, 2});
  const Checkpoint checkpoint(folder.path());
  Stored source(checkpoint);
  DryRank c;
  Tensor a;
  Loader load(c, "vae", source, DType::f32);
  load.tensor(a, "a", {3});
  EXPECT_EQ(words([&] { load.load(); }), "vae: 1 of another shape (a is [2], should be [3])");
}

}  // namespace
}  // namespace zoetrope::nn
