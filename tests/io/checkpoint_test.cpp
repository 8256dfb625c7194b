#include "io/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>

#include "io/temp_folder.h"
#include "support/words.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

constexpr const char* index_name = "diffusion_pytorch_model.safetensors.index.json";

void put_tensor(const fs::path& file, const std::string& name, std::vector<float> values) {
  write_safetensors(file, {{name, Tensor(values.data(), {static_cast<int64_t>(values.size())}, DType::f32)}});
}

std::vector<float> floats(const Checkpoint& checkpoint, const std::string& name) {
  std::vector<float> out(static_cast<size_t>(checkpoint.at(name).shape.size()));
  checkpoint.read(name, Tensor(out.data(), checkpoint.at(name).shape, DType::f32));
  return out;
}

std::string refusal(const fs::path& folder, std::string_view variant = {}) {
  return words([&] { Checkpoint(folder, variant); });
}

// Two shards and their index.
struct Sharded : TempFolder {
  Sharded() {
    put_tensor(*this / "m-1.safetensors", "a", {1, 2});
    put_tensor(*this / "m-2.safetensors", "b", {3});
    put(index_name, R"({"metadata":{"total_size":12},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  }
};

TEST(Checkpoint, ReadsAnIndexOfShards) {
  const Sharded folder;
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.entries().size(), 2u);
  EXPECT_EQ(checkpoint.file_of("b"), folder / "m-2.safetensors");
  EXPECT_EQ(floats(checkpoint, "a"), (std::vector<float>{1, 2}));
  EXPECT_EQ(floats(checkpoint, "b"), (std::vector<float>{3}));
}

TEST(Checkpoint, NamesTheShardOfWhatItCannotRead) {
  const Sharded folder;
  const Checkpoint checkpoint(folder.path());
  float out[2] = {};
  const std::string shard = (folder / "m-1.safetensors").string();
  EXPECT_EQ(words([&] { checkpoint.read_rows("a", 1, 3, Tensor(out, {2}, DType::f32)); }),
            shard + ": tensor \"a\" is [2], it has no rows 1 to 3");
  EXPECT_EQ(words([&] { checkpoint.read_columns("a", 0, 1, Tensor(out, {2}, DType::f32)); }),
            shard + ": tensor \"a\" is [2], it has no columns 0 to 1");
  EXPECT_EQ(words([&] { checkpoint.read("a", Tensor(out, {1}, DType::f32)); }),
            shard + ": tensor \"a\" is [2], 2 elements are asked for, but the destination is [1]");
  EXPECT_EQ(words([&] { checkpoint.read("c", Tensor(out, {1}, DType::f32)); }),
            folder.path().string() + ": no tensor \"c\" here");
}

TEST(Checkpoint, ReadsOneFileAndFollowsLinks) {
  const TempFolder folder;
  put_tensor(folder / "blob", "a", {7});
  fs::create_directory(folder / "snapshot");
  fs::create_symlink("../blob", folder / "snapshot" / "model.safetensors");
  EXPECT_EQ(floats(Checkpoint(folder / "snapshot"), "a"), (std::vector<float>{7}));
  EXPECT_EQ(floats(Checkpoint(folder / "blob"), "a"), (std::vector<float>{7}));
}

TEST(Checkpoint, KnowsVariants) {
  const TempFolder folder;
  put_tensor(folder / "model.fp16.safetensors", "a", {16});
  EXPECT_EQ(floats(Checkpoint(folder.path()), "a"), (std::vector<float>{16}));
  put_tensor(folder / "model.bf16.safetensors", "a", {17});
  EXPECT_EQ(refusal(folder.path()),
            folder.path().string() + ": no plain weights, but the variants bf16, fp16; name one of them");
  EXPECT_EQ(floats(Checkpoint(folder.path(), "bf16"), "a"), (std::vector<float>{17}));
  put_tensor(folder / "model.safetensors", "a", {32});
  EXPECT_EQ(floats(Checkpoint(folder.path()), "a"), (std::vector<float>{32}));
  EXPECT_EQ(refusal(folder.path(), "int8"), folder.path().string() + ": no weights of variant \"int8\" here");
  put_tensor(folder / "s.safetensors", "a", {8});
  folder.put("model.safetensors.index.q.json", R"({"weight_map":{"a":"s.safetensors"}})");
  EXPECT_EQ(floats(Checkpoint(folder.path(), "q"), "a"), (std::vector<float>{8}));
}

TEST(Checkpoint, NamesMissingShards) {
  const Sharded folder;
  fs::remove(folder / "m-2.safetensors");
  const std::string index = (folder / index_name).string();
  EXPECT_EQ(refusal(folder.path()), index + ": 1 of 2 shards are missing: m-2.safetensors; finish the download");
  folder.put("m-2.safetensors.incomplete", "");
  EXPECT_EQ(refusal(folder.path()),
            index +
                ": 1 of 2 shards are missing: m-2.safetensors (partial download m-2.safetensors.incomplete); "
                "finish the download");
  fs::remove(folder / "m-2.safetensors.incomplete");
  fs::create_symlink("../../blobs/0f", folder / "m-2.safetensors");
  EXPECT_EQ(refusal(folder.path()),
            index +
                ": 1 of 2 shards are missing: m-2.safetensors (a link to ../../blobs/0f, which is not there); "
                "finish the download");
}

TEST(Checkpoint, NamesAFileThatIsStillBeingDownloaded) {
  const TempFolder folder;
  put_tensor(folder / "model.safetensors", "a", {1});
  folder.put("model.safetensors.aria2", "");
  EXPECT_EQ(refusal(folder.path()),
            folder.path().string() +
                ": not complete: model.safetensors (partial download model.safetensors.aria2); finish the download");
}

TEST(Checkpoint, NamesTensorsThatIndexAndShardDoNotShare) {
  const Sharded folder;
  put_tensor(folder / "m-2.safetensors", "c", {3});
  EXPECT_EQ(refusal(folder.path()),
            (folder / "m-2.safetensors").string() + ": lacks tensors that " + index_name + " places in it: b");
  float v[1] = {0};
  const Tensor one(v, {1}, DType::f32);
  write_safetensors(folder / "m-2.safetensors", {{"b", one}, {"c", one}});
  EXPECT_EQ(refusal(folder.path()),
            (folder / "m-2.safetensors").string() + ": holds tensors that " + index_name + " does not place in it: c");
}

TEST(Checkpoint, RefusesAnIndexThatLeavesItsFolder) {
  for (const char* name : {"../x.safetensors", "/etc/passwd", "..", ""}) {
    const TempFolder folder;
    folder.put(index_name, cat(R"({"weight_map":{"a":")", name, R"("}})"));
    EXPECT_EQ(refusal(folder.path()),
              cat((folder / index_name).string(), ": \"", name, "\" is not the name of a file in this folder"));
  }
}

TEST(Checkpoint, SaysWhatAFolderHoldsInstead) {
  const TempFolder folder;
  const std::string where = folder.path().string();
  EXPECT_EQ(refusal(folder / "none"), where + "/none: no such folder");
  EXPECT_EQ(refusal(folder.path()),
            where +
                ": no weights here; diffusion_pytorch_model.safetensors, model.safetensors or an index of shards is "
                "expected");
  folder.put("pytorch_model.bin", "");
  EXPECT_EQ(refusal(folder.path()),
            where +
                ": holds PyTorch pickles (pytorch_model.bin), which are not read; use a repository with safetensors "
                "files");
  folder.put("model-00001-of-00002.safetensors", "");
  EXPECT_EQ(refusal(folder.path()),
            where +
                ": holds shards (model-00001-of-00002.safetensors) but not their index, "
                "diffusion_pytorch_model.safetensors.index.json or model.safetensors.index.json; download it again");
  folder.put("abc.incomplete", "");
  EXPECT_EQ(refusal(folder.path()), where + ": only a partial download is here (abc.incomplete); finish it first");
  folder.put("model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_EQ(refusal(folder.path()), where + "/model.safetensors: is a git-lfs pointer, run `git lfs pull`");
}

// Header and data of a file whose tensors begin at odd addresses.
fs::path unaligned_file(const TempFolder& folder, const std::string& dtype, std::string_view bytes) {
  const size_t size = dtype == "F64" ? 8 : dtype == "F32" ? 4 : 2;
  std::string header = cat(R"({"pad":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":")", dtype,
                           R"(","shape":[)", bytes.size() / size, R"(],"data_offsets":[1,)", bytes.size() + 1, "]}}");
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i));
  return folder.put(cat("model.", dtype, ".safetensors"), cat(text, header, "p", bytes));
}

template <class T>
std::string_view raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(Checkpoint, ConvertsEachFloatTypeFromAnyAddress) {
  const TempFolder folder;
  const std::vector<float> expected{1.0f, -2.0f, 0.15625f, 448.0f, -0.0f};
  std::vector<double> f64(expected.begin(), expected.end());
  std::vector<f16> half;
  std::vector<bf16> brain;
  for (const float x : expected) {
    half.emplace_back(x);
    brain.emplace_back(x);
  }
  EXPECT_EQ(floats(Checkpoint(unaligned_file(folder, "F32", raw(expected))), "x"), expected);
  EXPECT_EQ(floats(Checkpoint(unaligned_file(folder, "F64", raw(f64))), "x"), expected);
  EXPECT_EQ(floats(Checkpoint(unaligned_file(folder, "F16", raw(half))), "x"), expected);
  EXPECT_EQ(floats(Checkpoint(unaligned_file(folder, "BF16", raw(brain))), "x"), expected);
}

// Public reports: black videos, found at their end.
TEST(Checkpoint, RefusesValuesThatAreNotFinite) {
  const TempFolder folder;
  const auto said = [&](const std::string& dtype, std::string_view bytes, DType to) {
    const Checkpoint checkpoint(unaligned_file(folder, dtype, bytes));
    std::vector<float> out(static_cast<size_t>(checkpoint.at("x").shape.size()));
    return words([&] { checkpoint.read("x", Tensor(out.data(), checkpoint.at("x").shape, to)); });
  };
  const auto refusal = [&](const std::string& dtype, const std::string& as) {
    return cat((folder / cat("model.", dtype, ".safetensors")).string(),
               ": tensor \"x\" holds values that are not finite", as, "; the file is damaged, download it again");
  };
  std::vector<float> values(100'000, 1.0f);
  EXPECT_EQ(said("F32", raw(values), DType::f32), "no error");
  values.back() = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(said("F32", raw(values), DType::f32), refusal("F32", ""));
  EXPECT_EQ(said("F32", raw(values), DType::bf16), refusal("F32", " as bf16"));
  const std::vector<float> large{std::numeric_limits<float>::max()};  // rounds to infinity
  EXPECT_EQ(said("F32", raw(large), DType::f32), "no error");
  EXPECT_EQ(said("F32", raw(large), DType::bf16), refusal("F32", " as bf16"));
  EXPECT_EQ(said("F16", raw(std::vector<uint16_t>{0x3C00, 0xFC00}), DType::f32), refusal("F16", " as fp32"));
  EXPECT_EQ(said("BF16", raw(std::vector<uint16_t>{0x7F80, 0x3F80}), DType::bf16), refusal("BF16", ""));
}

// By another program: a map of the file would end this one.
TEST(Checkpoint, NoticesThatAFileBecameShorter) {
  const TempFolder folder;
  std::vector<float> values(1'000'000, 1.0f);
  const Tensor whole(values.data(), {1000, 1000}, DType::f32);
  const fs::path file = folder / "model.safetensors";
  write_safetensors(file, {{"w", whole}});
  const Checkpoint checkpoint(folder.path());
  const auto size = fs::file_size(file);
  fs::resize_file(file, size - 1000);
  const std::string rest = cat(": ends at byte ", size - 1000, ", it was ", size,
                               " bytes when it was opened; it is truncated, download it again");
  EXPECT_EQ(words([&] { checkpoint.read("w", whole); }), file.string() + rest);
  EXPECT_EQ(words([&] { checkpoint.read_columns("w", 999, 1000, Tensor(values.data(), {1000}, DType::f32)); }),
            file.string() + rest);
  EXPECT_EQ(words([&] {
              checkpoint.read_rows("w", 0, 999, Tensor(values.data(), {999, 1000}, DType::f32));
            }),
            "no error");
}

TEST(Checkpoint, KnowsATableOfZeros) {
  const TempFolder folder;
  std::vector<float> values(200'000, -0.0f);
  const Tensor table(values.data(), {200'000}, DType::f32);
  write_safetensors(folder / "model.safetensors", {{"w", table}});
  EXPECT_TRUE(Checkpoint(folder.path()).only_zeros("w"));
  values.back() = 1e-40f;
  write_safetensors(folder / "model.safetensors", {{"w", table}});
  EXPECT_FALSE(Checkpoint(folder.path()).only_zeros("w"));
}

struct Slices : ::testing::Test {
  TempFolder folder;
  std::vector<float> values = std::vector<float>(12);
  void SetUp() override {
    std::iota(values.begin(), values.end(), 0.0f);
    write_safetensors(folder / "model.safetensors", {{"w", Tensor(values.data(), {3, 4}, DType::f32)},
                                                     {"conv", Tensor(values.data(), {3, 2, 1, 2}, DType::f32)}});
  }
};

TEST_F(Slices, ReadRowsAndColumns) {
  const Checkpoint checkpoint(folder.path());
  std::vector<float> rows(8), columns(6);
  checkpoint.read_rows("w", 1, 3, Tensor(rows.data(), {2, 4}, DType::f32));
  EXPECT_EQ(rows, (std::vector<float>{4, 5, 6, 7, 8, 9, 10, 11}));
  checkpoint.read_columns("w", 1, 3, Tensor(columns.data(), {3, 2}, DType::f32));
  EXPECT_EQ(columns, (std::vector<float>{1, 2, 5, 6, 9, 10}));
  checkpoint.read_rows("conv", 2, 3, Tensor(rows.data(), {4}, DType::f32));
  EXPECT_EQ(rows[0], 8);
  checkpoint.read_rows("w", 3, 3, Tensor(rows.data(), {0, 4}, DType::f32));
  checkpoint.read_columns("w", 4, 4, Tensor(columns.data(), {3, 0}, DType::f32));
}

TEST_F(Slices, AreRefusedOutsideTheTensor) {
  const Checkpoint checkpoint(folder.path());
  float out[12];
  const std::string where = (folder / "model.safetensors").string();
  const auto rows = [&](int64_t from, int64_t to, Shape shape) {
    return words([&] { checkpoint.read_rows("w", from, to, Tensor(out, shape, DType::f32)); });
  };
  EXPECT_EQ(rows(2, 4, {2, 4}), where + ": tensor \"w\" is [3, 4], it has no rows 2 to 4");
  EXPECT_EQ(rows(0, 2, {3, 4}), where +
                                    ": tensor \"w\" is [3, 4], 8 elements are asked for, but the "
                                    "destination is [3, 4]");
  EXPECT_EQ(words([&] { checkpoint.read_columns("conv", 0, 1, Tensor(out, {3}, DType::f32)); }),
            where + ": tensor \"conv\" is [3, 2, 1, 2], it has no columns 0 to 1");
  EXPECT_EQ(words([&] { checkpoint.read("v", Tensor(out, {3}, DType::f32)); }),
            folder.path().string() + ": no tensor \"v\" here");
}

TEST(Checkpoint, ReadsPiecesLargerThanItsWindow) {
  const TempFolder folder;
  std::vector<float> values((20u << 20) / sizeof(float) + 3);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1021);
  const int64_t rows = static_cast<int64_t>(values.size()) / 7;
  values.resize(static_cast<size_t>(rows) * 7);
  write_safetensors(folder / "model.safetensors", {{"w", Tensor(values.data(), {rows, 7}, DType::f32)}});
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(floats(checkpoint, "w"), values);
  std::vector<float> last(static_cast<size_t>(rows));
  checkpoint.read_columns("w", 6, 7, Tensor(last.data(), {rows, 1}, DType::f32));
  for (size_t r = 0; r < last.size(); ++r) ASSERT_EQ(last[r], values[r * 7 + 6]);
}

size_t resident_kb() {  // of mapped files, on disk or in memory
  std::ifstream status("/proc/self/status");
  size_t total = 0, kb = 0;
  for (std::string word; status >> word;)
    if ((word == "RssFile:" || word == "RssShmem:") && status >> kb) total += kb;
  return total;
}

TEST(Checkpoint, LeavesNoPagesOfTheFileResident) {
  const TempFolder folder;
  std::vector<float> values((64u << 20) / sizeof(float), 1.0f);
  const Tensor whole(values.data(), {static_cast<int64_t>(values.size())}, DType::f32);
  write_safetensors(folder / "model.safetensors", {{"w", whole}});
  const Checkpoint checkpoint(folder.path());
  const size_t before = resident_kb();
  checkpoint.read("w", whole);
  ASSERT_GT(before, 0u);
  EXPECT_LT(resident_kb(), before + 1024);
}

TEST(Checkpoint, RefusesTypesItCannotConvert) {
  const TempFolder folder;
  uint8_t bytes[2] = {1, 2};
  float out[2];
  write_safetensors(folder / "model.safetensors",
                    {{"q", Tensor(bytes, {2}, DType::f8_e4m3)}, {"u", Tensor(bytes, {2}, DType::u8)}});
  const Checkpoint checkpoint(folder.path());
  const std::string file = (folder / "model.safetensors").string();
  EXPECT_EQ(words([&] { checkpoint.read("q", Tensor(out, {2}, DType::f32)); }),
            file +
                ": tensor \"q\" is F8_E4M3: quantized weights need their scales applied, which is not built; use the "
                "fp16, bf16 or fp32 files");
  EXPECT_EQ(words([&] { checkpoint.read("u", Tensor(out, {2}, DType::f32)); }),
            file + ": tensor \"u\" is U8 and cannot become fp32");
  checkpoint.read("u", Tensor(out, {2}, DType::u8));
  EXPECT_EQ(std::memcmp(out, bytes, 2), 0);
}

}  // namespace
}  // namespace zoetrope
