#include "models/wan/transformer.h"

#include "attn/dense.h"
#include "models/recorded.h"
#include "support/words.h"

namespace zoetrope {
namespace {

constexpr double bound = 2e-5;

// A model and the inputs of one recorded run.
struct Replay : Recorded {
  WanTransformer model;

  explicit Replay(const std::string& name, DType compute = DType::f32, bool fused = true,
                  std::unique_ptr<attn::Attention> attention = nullptr)
      : Recorded(name, fused),
        model(cpu.c, parse_wan_config(golden.config()), weights, compute, "transformer", nullptr,
              std::move(attention)) {}

  Tensor forward() {
    const Tensor x = cpu.tensor(golden.shape("x"), golden.values("x"));
    std::vector<float> text = golden.values("text_in");
    text.resize(static_cast<size_t>(WanConfig::text_rows * model.config().text_dim), 0.0f);
    const Tensor context = cpu.tensor({WanConfig::text_rows, model.config().text_dim}, text);
    // A table of several steps, of which the recorded one is the second.
    const float t = static_cast<float>(golden.number("timestep"));
    const StepTable steps = model.steps(cpu.c, std::vector<float>{999, t, 3});
    const Text encoded = model.encode_text(cpu.c, context, golden.shape("text_in")[0]);
    return model.forward(cpu.c, x, steps, 1, encoded);
  }
};

class WanGolden : public testing::TestWithParam<std::string> {};

TEST_P(WanGolden, MatchesTheReference) {
  for (const bool fused : {true, false}) {
    Replay run("wan/" + GetParam(), DType::f32, fused);
    Taps taps(run.cpu.rank);
    const Tensor v = run.forward();
    taps.expect_near(run.golden, bound);
    if (run.golden.has("patch")) {
      EXPECT_GE(taps.compared(), 13u);
    }
    EXPECT_EQ(v.shape(), run.golden.shape("out"));
    const double error = relative_error(values_of(v), run.golden.values("out"));
    expect_fidelity(run.golden, fused ? "velocity" : "velocity, plain ops", v.shape(), error, bound);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, WanGolden,
                         testing::Values("a_3x2x6", "a_3x2x6_float", "a_3x6x10", "a_5x6x10", "b_3x2x6", "b_3x2x6_float",
                                         "b_3x6x10", "b_5x6x10", "c_3x2x6", "c_3x2x6_float", "c_3x6x10", "c_5x6x10"));

// bf16 rounds the operands of products; the residual stream stays fp32. Beside each case: the relative L2 distance of
// diffusers 0.42.1 in bf16, on the same weights, to the same reference.
TEST(Wan, Bf16IsNoFurtherFromTheFp32ReferenceThanDiffusers) {
  for (const auto& [name, theirs] : {std::pair{"a_3x6x10", 5.3e-3}, {"b_5x6x10", 6.7e-3}, {"c_3x6x10", 5.6e-3}}) {
    Replay run(cat("wan/", name), DType::bf16);
    const double error = relative_l2(values_of(run.forward()), run.golden.values("out"));
    expect_fidelity(run.golden, "velocity, bf16, L2", run.golden.shape("out"), error, theirs);
    EXPECT_GE(error, 1e-4) << name << ": this cannot be bf16";
  }
}

// Strategies that ask for projections in other ways than the dense one.
struct OneByOne : attn::Attention {
  void reserve(const attn::Geometry&) override {}
  Partial run(Ctx& c, attn::Source& s) override {
    using attn::Projection;
    const Heads v = s.get(c, Projection::v), q = s.get(c, Projection::q), k = s.get(c, Projection::k);
    return attention(c, q, k, v);
  }
};
struct Elsewhere : attn::Attention {
  bool together;
  explicit Elsewhere(bool packed) : together(packed) {}
  void reserve(const attn::Geometry&) override {}
  Partial run(Ctx& c, attn::Source& s) override {
    Heads part[3];
    using attn::Projection;
    for (Heads& p : part) p = as_heads(c.empty({s.geo.tokens, s.geo.heads, s.geo.width}, s.geo.dtype), s.geo.width);
    if (together)
      EXPECT_TRUE(s.put_all(c, part[0], part[1], part[2]));
    else
      s.put(c, Projection::q, part[0]), s.put(c, Projection::k, part[1]), s.put(c, Projection::v, part[2]);
    return attention(c, part[0], part[1], part[2]);
  }
};

TEST(Wan, ProjectionsAreTheSameBitsHoweverTheyAreAskedFor) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const bool fused : {true, false}) {
      Replay dense("wan/a_3x6x10", type, fused), apart("wan/a_3x6x10", type, fused, std::make_unique<OneByOne>()),
          placed("wan/a_3x6x10", type, fused, std::make_unique<Elsewhere>(false)),
          packed("wan/a_3x6x10", type, fused, std::make_unique<Elsewhere>(true));
      const Tensor want = dense.forward();
      expect_same_bits(apart.forward(), want);
      expect_same_bits(placed.forward(), want);
      expect_same_bits(packed.forward(), want);
    }
}

TEST(Wan, GivesScratchBackAndRepeatsItself) {
  Replay run("wan/a_3x2x6");
  Ctx& c = run.cpu.c;
  const std::vector<float> once = values_of(run.forward());
  const size_t used = c.scratch().used();
  EXPECT_EQ(used, (once.size() * sizeof(float) + 255) / 256 * 256);  // the velocity alone
  Scope scope(c.scratch());
  run.cpu.poison_scratch();
  EXPECT_EQ(values_of(run.forward()), once);
}

// Segments are named by everything that a recording would hold.
TEST(Wan, RunsInThreeSegments) {
  struct Names : Segments {
    std::vector<std::string> keys;
    void run(Ctx&, std::string_view key, const std::function<void()>& body) override {
      keys.emplace_back(key.substr(0, key.find(']') + 6)), body();
    }
  };
  Replay run("wan/a_3x2x6");
  auto names = std::make_unique<Names>();
  Names& seen = *names;
  run.cpu.rank.segments = std::move(names);
  EXPECT_LE(relative_error(values_of(run.forward()), run.golden.values("out")), bound);
  EXPECT_EQ(seen.keys,
            (std::vector<std::string>{"transformer.head [3, 2, 6, 16] fp32", "transformer.blocks [3, 2, 6, 16] fp32",
                                      "transformer.tail [3, 2, 6, 16] fp32"}));
}

TEST(Wan, RefusesInputsByName) {
  Replay run("wan/a_3x2x6");
  Ctx& c = run.cpu.c;
  const StepTable steps = run.model.steps(c, std::vector<float>{1});
  EXPECT_EQ(words([&] {
              run.model.encode_text(c, run.cpu.random({4, 32}, 1), 4);
            }),
            "transformer: text is [4, 32], should be [512, 32]");
  EXPECT_EQ(words([&] {
              run.model.encode_text(c, run.cpu.random({512, 32}, 1), 0);
            }),
            "transformer: 0 real rows of text, 1 to 512 can be used");
  EXPECT_EQ(words([&] {
              run.model.forward(c, run.cpu.random({1, 2, 2, 4}, 1), steps, 0, {});
            }),
            "transformer: latents are [1, 2, 2, 4] fp32, should be [frames, rows, columns, 16] fp32");
  EXPECT_EQ(words([&] {
              run.model.forward(c, run.cpu.random({1, 3, 2, 16}, 1), steps, 0, {});
            }),
            "transformer: latents of 3x2 do not divide into patches of 2x2");
}

TEST(WanConfig, MissingKeysTakeDefaultsAndUnknownAreIgnored) {
  const WanConfig config = wan_config(parse_json(R"({"num_layers": 3, "something_new": [1]})", "test"));
  EXPECT_EQ(config.layers, 3);
  EXPECT_EQ(config.dim(), 5120);
  EXPECT_EQ(config.ffn_dim, 13824);
  EXPECT_EQ(config.rope_widths(), (std::array<int64_t, 3>{44, 42, 42}));
}

TEST(WanConfig, NamesTheModelsThatAreNotBuilt) {
  const auto fault = [](const char* json) { return words([&] { wan_config(parse_json(json, "test")); }); };
  EXPECT_EQ(
      fault(R"({"in_channels": 36, "image_dim": 1280, "added_kv_proj_dim": 5120})"),
      "transformer: image_dim is set, so this is a Wan 2.1 image-to-video model (I2V or FLF2V); its image branch is "
      "not built, text-to-video models are");
  EXPECT_EQ(fault(R"({"in_channels": 36, "image_dim": null})"),
            "transformer: 36 input channels, so this is Wan 2.2 I2V-A14B (image to video); image conditioning is not "
            "built, Wan 2.2 T2V-A14B and Wan 2.1 T2V are");
  EXPECT_EQ(fault(R"({"in_channels": 48, "out_channels": 48})"),
            "transformer: 48 input channels, so this is Wan 2.2 TI2V-5B; its per-token timesteps and its VAE are not "
            "built, Wan 2.2 T2V-A14B and Wan 2.1 T2V are");
  EXPECT_EQ(fault(R"({"patch_size": [2, 2, 2]})"), "transformer: patch_size [2,2,2] is not built; [1,2,2] is");
  EXPECT_EQ(fault(R"({"eps": 1e19})"), "transformer: eps is 1e+19, above 0 and below 0.1 makes sense");
  EXPECT_EQ(fault(R"({"num_layers": 0})"), "transformer: num_layers is 0, 1 to 1024 makes sense");
  EXPECT_EQ(fault(R"({"num_layers": 1000000000})"), "transformer: num_layers is 1000000000, 1 to 1024 makes sense");
  EXPECT_EQ(fault(R"({"num_layers": "many"})"), "\"num_layers\" is \"many\", which is a string");
}

}  // namespace
}  // namespace zoetrope
