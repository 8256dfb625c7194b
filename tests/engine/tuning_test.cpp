// Tables of measured plans: what is found for which product, and which files are refused in which words.
#include "ops/cuda/tuning.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "engine/tuning.h"
#include "io/temp_folder.h"
#include "ops/cpu/backend.h"
#include "support/words.h"

namespace zoetrope::cuda {
namespace {

ProductPlan product(int64_t m, int64_t n, const char* plan) {
  return {m, n, 5120, DType::bf16, DType::bf16, "bias", 16, {1, 2, 3, 0, 0, 0, 0, uint64_t{1} << 63}, plan, 4.5, 5};
}

TuningTable table() {
  TuningTable t{"NVIDIA H200", "13.1.1", "9.19.0", {}, {}};
  t.products = {product(1000, 5120, "a"), product(75600, 5120, "b"), product(75600, 15360, "c")};
  t.convolutions = {{"96 to 96", 3, 90, 160, "eng41_k2=1", 10, 12}, {"96 to 96", 6, 720, 1280, "eng41_k2=2", 10, 12}};
  return t;
}

TEST(Tuning, ATableSurvivesItsFile) {
  const TuningTable read = TuningTable::parse(table().text(), "t.json");
  EXPECT_EQ(read.text(), table().text());
  EXPECT_EQ(read.hash(), table().hash());
  EXPECT_EQ(read.products[0].code, table().products[0].code);
  EXPECT_EQ(tuning_name(read.device, read.cublas, read.cudnn), "nvidia-h200-cublas13.1.1-cudnn9.19.0");
}

TEST(Tuning, TheNearestNumberOfRowsIsTakenButNotOneThatIsFar) {
  const TuningTable t = table();
  const auto plan_for = [&](int64_t m, int64_t n, int64_t alignment = 256) {
    ProductPlan like = product(m, n, "");
    like.alignment = alignment;
    const ProductPlan* found = t.find(like);
    return found ? found->plan : "none";
  };
  EXPECT_EQ(plan_for(1000, 5120), "a");
  EXPECT_EQ(plan_for(1499, 5120), "a");
  EXPECT_EQ(plan_for(1501, 5120), "none");
  EXPECT_EQ(plan_for(72000, 5120), "b");
  EXPECT_EQ(plan_for(72000, 15360), "c");
  EXPECT_EQ(plan_for(72000, 13824), "none");
  EXPECT_EQ(plan_for(72000, 5120, 8), "none");
  ProductPlan other = product(75600, 5120, "");
  other.epilogue = "gelu_bias";
  EXPECT_EQ(t.find(other), nullptr);
  EXPECT_EQ(t.find(ConvolutionPlan{"96 to 96", 3, 100, 160, {}, 0, 0})->plan, "eng41_k2=1");
  EXPECT_EQ(t.find(ConvolutionPlan{"96 to 96", 6, 700, 1280, {}, 0, 0})->plan, "eng41_k2=2");
  EXPECT_EQ(t.find(ConvolutionPlan{"96 to 3", 6, 700, 1280, {}, 0, 0}), nullptr);
}

TEST(Tuning, SizesThatNoIntegerHoldsTheProductOfAreMerelyFar) {
  TuningTable t = table();
  constexpr int64_t most = int64_t{1} << 40;
  t.convolutions = {{"96 to 96", most, most, most, "far", 10, 12}, {"96 to 96", 3, 90, 160, "near", 10, 12}};
  const TuningTable read = TuningTable::parse(t.text(), "t.json");
  EXPECT_EQ(read.find(ConvolutionPlan{"96 to 96", 3, 90, 160, {}, 0, 0})->plan, "near");
}

TEST(Tuning, FilesThatAreNoTableAreRefusedByTheirWords) {
  const auto refused = [](const std::string& text) { return words([&] { TuningTable::parse(text, "t.json"); }); };
  Json good = parse_json(table().text(), "");
  const auto with = [&](auto change) {
    Json other = good;
    change(other);
    return refused(other.dump());
  };
  EXPECT_EQ(refused("[]"), "t.json: not a table of `zoetrope tune`");
  EXPECT_EQ(with([](Json& j) { j["format"] = 2; }),
            "t.json: a table of format 2; this version reads 1, write it again with `zoetrope tune`");
  EXPECT_EQ(with([](Json& j) { j["products"][1]["n"] = 5121; }),
            "t.json: damaged, or changed by hand: its sha256 is that of another table; write it again with `zoetrope "
            "tune`");
  EXPECT_EQ(with([](Json& j) { j["products"][2]["code"] = "12"; }),
            "t.json: products 2: \"code\" is not 128 hexadecimal digits");
  EXPECT_EQ(with([](Json& j) { j["products"][0].erase("plan"); }), "t.json: products 0: \"plan\" is missing");
  EXPECT_EQ(with([](Json& j) { j["convolutions"][0]["rows"] = -1; }), "t.json: convolutions 0: \"rows\" is not a size");
  EXPECT_EQ(with([](Json& j) { j["convolutions"] = 3; }), "t.json: \"convolutions\" is not a list");
  EXPECT_EQ(with([](Json& j) { j.erase("sha256"); }), "t.json: \"sha256\" is missing");
  EXPECT_NE(refused("{\"format\": 1").find("t.json"), std::string::npos);
}

TEST(Tuning, ShippedTablesAreWholeAndNamedAfterWhatTheyAreFor) {
  const std::filesystem::path folder = ZOETROPE_SOURCE_DIR "/configs/tuning";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "none ships yet";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const TuningTable t = TuningTable::parse(read_file(entry.path(), 4 << 20), entry.path().string());
    EXPECT_EQ(entry.path().filename().string(), tuning_name(t.device, t.cublas, t.cudnn) + ".json");
    EXPECT_FALSE(t.products.empty());
  }
}

TEST(Tuning, TheCpuHasNoTable) {
  const auto cpu = make_cpu_backend();
  EXPECT_EQ(use_tuning(*cpu).hash, "");
  EXPECT_EQ(words([&] { use_tuning(*cpu, "t.json"); }),
            "tuning: t.json: a table is for a GPU; leave --tuning out, or use --device cuda");
}

}  // namespace
}  // namespace zoetrope::cuda
