#include "models/recorded.h"
#include "models/wan_vae/decoder.h"
#include "support/words.h"

namespace zoetrope {
namespace {

constexpr double bound = 2e-5;

struct Replay : Recorded {
  WanVaeDecoder decoder;

  explicit Replay(const std::string& name, DType compute = DType::f32, int64_t channel_multiple = 1)
      : Recorded(name), decoder(padded(channel_multiple), wan_vae_config(golden.config()), weights, compute) {}

  Tensor latents() { return cpu.tensor(golden.shape("latents"), golden.values("latents")); }
  // All frames after each other, as the reference has them.
  std::vector<float> decode() {
    WanVaeDecoder::Stream stream(decoder);
    const Tensor all = latents();
    std::vector<float> video;
    for (int64_t t = 0; t < all.dim(0); ++t) {
      Scope scope(cpu.c.scratch());
      const auto frames = values_of(stream.decode_next(cpu.c, all.rows(t, t + 1)));
      video.insert(video.end(), frames.begin(), frames.end());
    }
    return video;
  }

 private:
  Ctx& padded(int64_t multiple) {
    cpu.rank.traits.channel_multiple = multiple;
    return cpu.c;
  }
};

class WanVaeGolden : public testing::TestWithParam<std::string> {};

TEST_P(WanVaeGolden, MatchesTheReference) {
  Replay run("wan_vae/" + GetParam());
  Taps taps(run.cpu.rank);
  const std::vector<float> video = run.decode(), want = run.golden.values("out");
  taps.expect_near(run.golden, bound);
  if (run.golden.has("mid")) {
    EXPECT_EQ(taps.compared(), 7u);
  }
  ASSERT_EQ(video.size(), want.size());
  const double error = relative_error(video, want);
  expect_fidelity(run.golden, "video", run.golden.shape("out"), error, bound);
}

INSTANTIATE_TEST_SUITE_P(Clips, WanVaeGolden,
                         testing::Values("a_1x4x6", "a_2x5x3", "a_5x3x4", "b_1x4x6", "b_2x5x3", "b_5x3x4"));

TEST(WanVae, PaddedChannelsChangeNothing) {
  Replay run("wan_vae/a_2x5x3", DType::f32, 8);  // the output convolution makes 8 channels, 3 of them real
  EXPECT_LE(relative_error(run.decode(), run.golden.values("out")), bound);
}

TEST(WanVae, RefusesWidthsThatTheDeviceCannotPad) {
  EXPECT_EQ(words([&] { Replay("wan_vae/b_1x4x6", DType::f32, 8); }),
            "vae: 4 latent channels and 12 of the decoder's last stage; on this device both must be multiples of 8");
}

// Beside each case: the relative L2 distance of diffusers 0.42.1 in bf16, on the same weights, to the same reference.
TEST(WanVae, Bf16IsNoFurtherFromTheFp32ReferenceThanDiffusers) {
  for (const auto& [name, theirs] : {std::pair{"a_2x5x3", 2.0e-2}, {"a_5x3x4", 2.2e-2}, {"b_2x5x3", 1.55e-2}}) {
    Replay run(cat("wan_vae/", name), DType::bf16);
    const double error = relative_l2(run.decode(), run.golden.values("out"));
    expect_fidelity(run.golden, "video, bf16, L2", run.golden.shape("out"), error, theirs);
    EXPECT_GE(error, 1e-4) << name << ": this cannot be bf16";
  }
}

TEST(WanVae, StreamsDoNotSeeEachOther) {
  Replay run("wan_vae/a_2x5x3");
  const std::vector<float> alone = run.decode();
  Ctx& c = run.cpu.c;
  WanVaeDecoder::Stream one(run.decoder), other(run.decoder);
  const Tensor latents = run.latents(), noise = run.cpu.random({2, 3, 4, 16}, 9);
  std::vector<float> video;
  for (int64_t t = 0; t < 2; ++t) {
    const auto frames = values_of(one.decode_next(c, latents.rows(t, t + 1)));
    video.insert(video.end(), frames.begin(), frames.end());
    other.decode_next(c, noise.rows(t, t + 1));
  }
  EXPECT_EQ(video, alone);
}

TEST(WanVae, GivesScratchBack) {
  Replay run("wan_vae/a_2x5x3");
  const std::vector<float> once = run.decode();
  EXPECT_EQ(run.cpu.c.scratch().used(), 0u);
  run.cpu.poison_scratch();
  EXPECT_EQ(run.decode(), once);
}

TEST(WanVae, ScalesLatentsBackAndSaysTheSizesOfFrames) {
  Replay run("wan_vae/a_1x4x6");
  const WanVaeConfig& config = run.decoder.config();
  std::vector<float> scaled = run.golden.values("latents");
  for (size_t i = 0; i < scaled.size(); ++i) scaled[i] = scaled[i] * config.std[i % 16] + config.mean[i % 16];
  EXPECT_LE(relative_error(scaled, run.golden.values("z")), 1e-6);
  EXPECT_EQ(config.frames_of(21), 81);
  EXPECT_EQ(config.spatial_factor(), 8);
}

TEST(WanVae, RefusesFramesThatDoNotFit) {
  Replay run("wan_vae/a_1x4x6");
  Ctx& c = run.cpu.c;
  WanVaeDecoder::Stream stream(run.decoder);
  EXPECT_EQ(words([&] {
              stream.decode_next(c, run.cpu.random({2, 4, 6, 16}, 1));
            }),
            "vae: a latent frame is [2, 4, 6, 16] fp32, should be [1, H, W, 16] fp32");
  stream.decode_next(c, run.cpu.random({1, 4, 6, 16}, 1));
  EXPECT_EQ(words([&] {
              stream.decode_next(c, run.cpu.random({1, 4, 4, 16}, 1));
            }),
            "vae: a latent frame is [1, 4, 4, 16] but the clip began with [1, 4, 6, 16]");
}

TEST(WanVaeConfig, NamesWhatIsNotBuilt) {
  const auto fault = [](const char* json) { return words([&] { wan_vae_config(parse_json(json, "test")); }); };
  EXPECT_EQ(
      fault(R"({"is_residual": true, "z_dim": 48})"),
      "vae: is_residual and 48 latent channels, so this is the Wan 2.2 VAE (of TI2V-5B and Cosmos3), which is not "
      "built; the 2.1 VAE is");
  EXPECT_EQ(fault(R"({"z_dim": 4})"), "vae: latents_mean has 16 and latents_std 16 values, z_dim is 4");
  EXPECT_EQ(fault(R"({"temperal_downsample": [true]})"),
            "vae: dim_mult has 4 entries and temperal_downsample 1; the second needs one fewer");
  EXPECT_EQ(fault(R"({"num_res_blocks": 1000})"), "vae: num_res_blocks is 1000, 1 to 64 makes sense");
  EXPECT_EQ(wan_vae_config(Json::object()).decoder_base_dim, 96);
}

}  // namespace
}  // namespace zoetrope
