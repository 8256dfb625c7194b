// Tables of measured plans: what is found for which product, and which files are refused in which words.
#include "ops/cuda/tuning.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "engine/offered_plans.h"
#include "engine/tuning.h"
#include "io/temp_folder.h"
#include "ops/cpu/backend.h"
#include "ops/cuda/plan_choice.h"
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
}

TEST(Tuning, TheNearestPictureComesFirst) {
  const TuningTable t = table();
  const auto plans_for = [&](const char* kind, int64_t frames, int64_t rows, int64_t columns) {
    std::string plans;
    for (const ConvolutionPlan* row : t.all({kind, frames, rows, columns, {}, 0, 0})) plans += row->plan + ' ';
    return plans;
  };
  EXPECT_EQ(plans_for("96 to 96", 3, 100, 160), "eng41_k2=1 eng41_k2=2 ");
  EXPECT_EQ(plans_for("96 to 96 zeros 1 1", 6, 700, 1280), "eng41_k2=2 eng41_k2=1 ");
  EXPECT_EQ(plans_for("96 to 3", 6, 700, 1280), "");
}

// A back end that tries them in order, each of which it can have.
std::string first_choice(const std::string& kind, const std::vector<std::string>& offered,
                         const TuningTable* t = nullptr) {
  const PlanChoice choice({kind, 3, 90, 160, {}, 0, 0}, t);
  for (const std::string& tile : choice.tiles())
    for (const size_t i : choice.order(offered, tile)) return offered[i];
  return "none";
}
const std::string rest = " stride 1 zeros 1 1 bias bf16 in bf16 to bf16";

TEST(PlanChoice, TakesWhatWasFastestOfEachSetOfBits) {
  EXPECT_EQ(first_choice("96 to 96 kernel 3x3x3" + rest, of_96), "eng41_k2=0_k13=0_k18=0_k25=0_k27=8_k28=1");
  EXPECT_EQ(first_choice("96 to 8 kernel 3x3x3" + rest, of_96_to_8), "eng10_k2=16_k13=0_k14=3_k18=0_k23=0");
  EXPECT_EQ(first_choice("192 to 192 kernel 3x3x3" + rest, of_192), "eng41_k2=3_k13=1_k18=0_k25=0_k27=1_k28=2");
  EXPECT_EQ(first_choice("192 to 384 kernel 3x3x3" + rest, of_192), "eng41_k2=0_k13=1_k18=0_k25=1_k27=2_k28=1");
  EXPECT_EQ(first_choice("384 to 384 kernel 3x3x3" + rest, of_192), "eng41_k2=0_k13=1_k18=0_k25=1_k27=2_k28=1");
  EXPECT_EQ(first_choice("384 to 192 kernel 1x3x3" + rest, of_384_to_192), "eng41_k2=0_k13=1_k18=0_k25=1_k27=8_k28=1");
  EXPECT_EQ(first_choice("96 to 96 kernel 3x3x3" + rest, {"eng2", "eng28_k13=0", "eng41_k13=1_k25=1"}), "none");
  EXPECT_EQ(first_choice("8 to 8 kernel 3x3x3" + rest, {"eng4", "eng10_k13=0_k23=2", "eng10_k13=0_k23=0"}),
            "eng10_k13=0_k23=0");
}

// Behind what is named come the others of the same bits, in the library's order.
TEST(PlanChoice, GoesOnWithinOneSetOfBits) {
  const PlanChoice choice({"96 to 96 kernel 3x3x3" + rest, 3, 720, 1280, {}, 0, 0}, nullptr);
  EXPECT_EQ(choice.tiles(), std::vector<std::string>{"k13=0"});
  const std::vector<size_t> order = choice.order(of_96, "k13=0");
  ASSERT_GT(order.size(), 4u);
  EXPECT_EQ(of_96[order[1]], "eng41_k2=3_k13=0_k18=0_k25=0_k27=4_k28=1");
  EXPECT_EQ(of_96[order[2]], "eng10_k2=16_k13=0_k14=3_k18=0_k23=0");
  EXPECT_EQ(of_96[order[3]], "eng41_k2=4_k13=0_k18=0_k25=1_k27=8_k28=1");
  for (size_t i = 2; i < order.size(); ++i) EXPECT_EQ(of_96[order[i]].find("k25=0"), std::string::npos);
  EXPECT_EQ(PlanChoice::most_workspace("eng41_k13=0_k25=0", 1 << 20), 1024);
  EXPECT_EQ(PlanChoice::most_workspace("eng41_k13=0_k25=1", 1 << 20), 1 << 20);
}

TEST(PlanChoice, FollowsATableWithinTheSameBitsAlone) {
  TuningTable t = table();
  const std::string kind = "96 to 96 kernel 3x3x3" + rest;
  t.convolutions = {{kind, 3, 90, 160, "eng41_k2=1_k13=0_k18=0_k25=1_k27=8_k28=1", 1, 2}};
  EXPECT_EQ(first_choice(kind, of_96, &t), t.convolutions[0].plan);
  EXPECT_EQ(PlanChoice({kind, 3, 90, 160, {}, 0, 0}, &t).missed(t.convolutions[0].plan), nullptr);
  t.convolutions[0].plan = "eng41_k2=0_k13=1_k18=0_k25=1_k27=8_k28=1";  // the other tile
  EXPECT_EQ(first_choice(kind, of_96, &t), first_choice(kind, of_96));
  EXPECT_EQ(PlanChoice({kind, 3, 90, 160, {}, 0, 0}, &t).missed(first_choice(kind, of_96)), &t.convolutions[0]);
}

TEST(Tuning, SizesThatNoIntegerHoldsTheProductOfAreMerelyFar) {
  TuningTable t = table();
  constexpr int64_t most = int64_t{1} << 40;
  t.convolutions = {{"96 to 96", most, most, most, "far", 10, 12}, {"96 to 96", 3, 90, 160, "near", 10, 12}};
  const TuningTable read = TuningTable::parse(t.text(), "t.json");
  EXPECT_EQ(read.all({"96 to 96", 3, 90, 160, {}, 0, 0}).at(0)->plan, "near");
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
