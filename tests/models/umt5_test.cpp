#include "models/umt5/umt5.h"

#include "models/recorded.h"
#include "support/words.h"

namespace zoetrope {
namespace {

struct Replay : Recorded {
  Umt5Encoder model;
  std::vector<int32_t> ids;

  explicit Replay(const std::string& name, DType compute = DType::f32)
      : Recorded(name), model(cpu.c, umt5_config(golden.config()), weights, compute) {
    for (const int64_t id : golden.values<int64_t>("ids")) ids.push_back(static_cast<int32_t>(id));
  }
  double bound() const { return std::max(2e-5, 3 * golden.number("fp32_error")); }
};

class Umt5Golden : public testing::TestWithParam<std::string> {};

TEST_P(Umt5Golden, MatchesTheReference) {
  Replay run("umt5/" + GetParam());
  Taps taps(run.cpu.rank);
  const Tensor hidden = run.model.forward(run.cpu.c, run.ids);
  taps.expect_near(run.golden, run.bound());
  if (run.golden.has("embedding")) {
    EXPECT_EQ(taps.compared(), 1u + 3u * 2u);
  }
  EXPECT_EQ(hidden.shape(), run.golden.shape("hidden"));
  const double error = relative_error(values_of(hidden), run.golden.values("hidden"));
  expect_fidelity(run.golden, "hidden", hidden.shape(), error, run.bound());
}

INSTANTIATE_TEST_SUITE_P(Lengths, Umt5Golden,
                         testing::Values("a_1", "a_7", "a_77", "a_512", "b_1", "b_7", "b_77", "b_512"));

// Beside each case: the relative L2 distance of transformers in bf16, on the same weights, to the same reference.
TEST(Umt5, Bf16IsNoFurtherFromTheFp32ReferenceThanTransformers) {
  for (const auto& [name, theirs] : {std::pair{"a_77", 8.0e-3}, {"b_77", 9.5e-3}}) {
    Replay run(cat("umt5/", name), DType::bf16);
    const double error = relative_l2(values_of(run.model.forward(run.cpu.c, run.ids)), run.golden.values("hidden"));
    expect_fidelity(run.golden, "hidden, bf16, L2", run.golden.shape("hidden"), error, theirs);
    EXPECT_GE(error, 1e-4) << name << ": this cannot be bf16";
  }
}

TEST(Umt5, PadsWithZeroRowsForTheTransformer) {
  Replay run("umt5/a_7");
  run.cpu.poison_scratch();
  const Tensor text = run.model.encode(run.cpu.c, run.ids);
  EXPECT_EQ(text.shape(), Shape({512, 64}));
  EXPECT_LE(relative_error(values_of(text.rows(0, 7)), run.golden.values("hidden")), run.bound());
  EXPECT_EQ(values_of(text.rows(7, 512)), std::vector<float>(505 * 64, 0.0f));
  EXPECT_EQ(run.cpu.c.scratch().used(), 0u);
}

TEST(Umt5, RefusesWrongIds) {
  Replay run("umt5/a_1");
  Ctx& c = run.cpu.c;
  EXPECT_EQ(words([&] { run.model.forward(c, {}); }),
            "text_encoder: no tokens; even an empty prompt has its end token");
  EXPECT_EQ(words([&] {
              run.model.forward(c, std::vector<int32_t>{5, 300});
            }),
            "text_encoder: token id 300 is outside the embedding table of 300 rows");
  EXPECT_EQ(words([&] { run.model.forward(c, std::vector<int32_t>{-1}); }),
            "text_encoder: token id -1 is outside the embedding table of 300 rows");
  EXPECT_EQ(words([&] { run.model.encode(c, std::vector<int32_t>(513, 1)); }),
            "text_encoder: 513 tokens, at most 512 fit; cut the prompt's ids first");
}

// Files hold the table as shared.weight, as encoder.embed_tokens.weight, as both, or as both with one of them zeros.
struct Named : nn::Parameters {
  Named(const Recorded& run, const std::vector<nn::Entry>& entries, const std::vector<std::string>& names,
        std::string zeros = {})
      : run_(run), zeros_(std::move(zeros)) {
    for (const nn::Entry& entry : entries) listing_.emplace(entry.key, entry.shape);
    const Shape table = listing_.extract("shared.weight").mapped();
    for (const std::string& name : names) listing_.emplace(name, table);
  }
  const nn::Listing* listing() const override { return &listing_; }
  bool only_zeros(const std::string& key) const override { return key == zeros_; }
  void read(const std::string& key, const Shape& shape, const nn::Slice& part, const Tensor& to) override {
    const bool table = key == "shared.weight" || key == "encoder.embed_tokens.weight";
    nn::Random(run_.golden.seed()).read(table ? "shared.weight" : key, shape, part, to);
    if (key == zeros_) std::memset(to.raw(), 0, static_cast<size_t>(to.bytes()));
  }

 private:
  const Recorded& run_;
  nn::Listing listing_;
  std::string zeros_;
};

TEST(Umt5, TakesItsTableUnderEitherName) {
  const std::string shared = "shared.weight", tied = "encoder.embed_tokens.weight";
  Replay run("umt5/a_7");
  const Umt5Config config = umt5_config(run.golden.config());
  const std::vector<float> want = values_of(run.model.forward(run.cpu.c, run.ids));
  for (const auto& [names, zeros] : {std::pair<std::vector<std::string>, std::string>{{shared}, ""},
                                     {{tied}, ""},
                                     {{shared, tied}, ""},
                                     {{shared, tied}, shared},
                                     {{shared, tied}, tied}}) {
    Named source(run, run.model.entries(), names, zeros);
    CpuCtx cpu;
    const Umt5Encoder model(cpu.c, config, source, DType::f32);
    EXPECT_EQ(values_of(model.forward(cpu.c, run.ids)), want) << names[0] << names.size() << zeros;
  }
}

TEST(Umt5, BucketsAreThePublishedOnes) {
  for (const auto& [distance, bucket] : std::vector<std::pair<int, int>>{{0, 0},
                                                                         {-1, 1},
                                                                         {1, 17},
                                                                         {-7, 7},
                                                                         {-8, 8},
                                                                         {8, 24},
                                                                         {-16, 10},
                                                                         {12, 25},
                                                                         {23, 27},
                                                                         {45, 28},
                                                                         {-64, 14},
                                                                         {91, 31},
                                                                         {128, 31},
                                                                         {-511, 15}})
    EXPECT_EQ(umt5_bucket(distance), bucket) << distance;
}

TEST(Umt5, NamesVariantsThatAreNotBuilt) {
  const auto fault = [](const char* json) { return words([&] { umt5_config(parse_json(json, "test")); }); };
  EXPECT_EQ(fault(R"({"layer_norm_epsilon": -1})"),
            "text_encoder: layer_norm_epsilon is -1, above 0 and below 0.1 makes sense");
  EXPECT_EQ(fault(R"({"feed_forward_proj": "relu"})"),
            "text_encoder: feed_forward_proj \"relu\" is not built; gated-gelu is");
  EXPECT_EQ(fault(R"({"relative_attention_num_buckets": 64})"),
            "text_encoder: 64 position buckets up to 128 are not built; 32 up to 128 are");
  EXPECT_EQ(fault(R"({"d_model": -4})"), "text_encoder: d_model is -4, 1 to 16777216 makes sense");
}

}  // namespace
}  // namespace zoetrope
