#include "models/models.h"

#include <cstdio>

#include "core/dry_rank.h"
#include "models/umt5/umt5.h"
#include "models/wan/transformer.h"
#include "models/wan_vae/decoder.h"
#include "nn/random.h"
#include "ops/cpu/backend.h"
#include "support/cpu_ctx.h"
#include "support/words.h"

namespace zoetrope {
namespace {

// Counts as the CPU back end would work.
struct DryCtx : DryRank {
  DryCtx() : DryRank(cpu_traits()) {}
  nn::Random weights{0};
};

ModelFacts facts(const char* preset, const char* part) {
  const Json config = model_preset(preset).config(cat(part, "/config.json"));
  return model_class(class_name_of(config)).facts(config);
}

void expect_facts(const ModelFacts& facts, size_t tensors, int64_t parameters) {
  EXPECT_EQ(facts.used.size(), tensors);
  EXPECT_EQ(facts.parameters(), parameters);
}

int64_t resident_bytes() {
  long total = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file && std::fscanf(file, "%ld %ld", &total, &resident) != 2) resident = 0;
  if (file) std::fclose(file);
  return int64_t{4096} * resident;
}

// Counts of the published checkpoints.
TEST(Models, CountTensorsAndParametersOfTheReleasedModels) {
  expect_facts(facts("wan2.2-t2v-a14b", "transformer"), 1095, 14'288'491'584);
  expect_facts(facts("wan2.2-t2v-a14b", "transformer_2"), 1095, 14'288'491'584);
  expect_facts(facts("wan2.1-t2v-1.3b", "transformer"), 825, 1'418'996'800);
  expect_facts(facts("wan2.1-t2v-1.3b", "text_encoder"), 242, 5'680'910'336);
  const ModelFacts vae = facts("wan2.1-t2v-1.3b", "vae");
  expect_facts(vae, 108, 73'295'603);
  EXPECT_EQ(vae.optional.size(), 86u);
  EXPECT_EQ(nn::parameter_count(vae.optional), 53'596'928);
}

TEST(Models, NameWhatTheyExpect) {
  const ModelFacts expert = facts("wan2.2-t2v-a14b", "transformer");
  const auto has = [](const std::vector<nn::Entry>& list, const nn::Entry& entry) {
    return std::ranges::find(list, entry) != list.end();
  };
  EXPECT_TRUE(has(expert.used, {"blocks.39.attn2.to_out.0.weight", {5120, 5120}}));
  EXPECT_TRUE(has(expert.used, {"patch_embedding.weight", {5120, 16, 1, 2, 2}}));
  const ModelFacts vae = facts("wan2.2-t2v-a14b", "vae");
  EXPECT_TRUE(has(vae.used, {"decoder.up_blocks.1.resnets.0.conv_shortcut.weight", {384, 192, 1, 1, 1}}));
  EXPECT_TRUE(has(vae.used, {"decoder.up_blocks.2.upsamplers.0.resample.1.weight", {96, 192, 3, 3}}));
  EXPECT_TRUE(has(vae.optional, {"encoder.down_blocks.8.time_conv.weight", {384, 384, 3, 1, 1}}));
  EXPECT_TRUE(has(vae.optional, {"encoder.down_blocks.6.conv_shortcut.weight", {384, 192, 1, 1, 1}}));
}

TEST(Models, RefuseUnknownNames) {
  EXPECT_EQ(words([] { model_class("HunyuanVideoTransformer3DModel"); }),
            "model class \"HunyuanVideoTransformer3DModel\" is not built; these are: UMT5EncoderModel, "
            "WanTransformer3DModel, AutoencoderKLWan");
  EXPECT_EQ(words([] { class_name_of(Json::object()); }),
            "config.json names no class: neither _class_name nor architectures is there");
  EXPECT_EQ(words([] { model_preset("wan3"); }),
            "random:wan3: no such preset; these are: wan2.1-t2v-1.3b, wan2.1-t2v-14b, wan2.2-t2v-a14b");
  EXPECT_EQ(words([] { model_preset("wan2.1-t2v-1.3b").config("transformer_2/config.json"); }),
            "random:wan2.1-t2v-1.3b: has no transformer_2/config.json");
}

// A checkpoint of which only the header is known.
struct Listed : nn::Parameters {
  nn::Listing shapes;
  const nn::Listing* listing() const override { return &shapes; }
  void read(const std::string& key, const Shape&, const nn::Slice&, const Tensor&) override {
    ADD_FAILURE() << key << " was read";
  }
  explicit Listed(const ModelFacts& facts) {
    for (const auto* list : {&facts.used, &facts.optional})
      for (const nn::Entry& entry : *list) shapes.emplace(entry.key, entry.shape);
  }
};

TEST(Models, ListEveryFaultOfACheckpointByPart) {
  DryCtx dry;
  const WanConfig config = wan_config(model_preset("wan2.1-t2v-1.3b").config("transformer/config.json"));
  Listed file(facts("wan2.1-t2v-1.3b", "transformer"));
  file.shapes.emplace("blocks.7.attn2.norm_added_q.weight", Shape{1536});  // known to occur, ignored
  EXPECT_EQ(words([&] { WanTransformer(dry.c, config, file, DType::bf16); }), "no error");
  file.shapes.erase("proj_out.bias");
  file.shapes.erase("blocks.3.norm2.weight");
  file.shapes.emplace("blocks.30.norm2.weight", Shape{1536});
  file.shapes["blocks.0.attn1.to_q.weight"] = {1536, 12};
  EXPECT_EQ(words([&] { WanTransformer(dry.c, config, file, DType::bf16, "transformer_2"); }),
            "transformer_2: 2 missing (blocks.3.norm2.weight, proj_out.bias), 1 unknown (blocks.30.norm2.weight), 1 of "
            "another shape (blocks.0.attn1.to_q.weight is [1536, 12], should be [1536, 1536])");
}

TEST(Models, TheDecoderTakesFilesWithAndWithoutAnEncoder) {
  DryCtx dry;
  const WanVaeConfig config = wan_vae_config(model_preset("wan2.1-t2v-1.3b").config("vae/config.json"));
  ModelFacts known = facts("wan2.1-t2v-1.3b", "vae");
  Listed complete(known);
  EXPECT_EQ(words([&] { WanVaeDecoder(dry.c, config, complete, DType::f32); }), "no error");
  known.optional.clear();
  Listed half(known);
  EXPECT_EQ(words([&] { WanVaeDecoder(dry.c, config, half, DType::f32); }), "no error");
  half.shapes.emplace("encoder.surprise", Shape{1});
  EXPECT_EQ(words([&] { WanVaeDecoder(dry.c, config, half, DType::f32); }), "vae: 1 unknown (encoder.surprise)");
}

double flops(const OpCounts& counts, std::string_view op) {
  const auto found = counts.find(op);
  return found == counts.end() ? 0 : found->second.flops;
}

// One expert of Wan 2.2 A14B at 720p x 81 frames: 75,600 tokens.
TEST(Models, ADryForwardCountsTheWorkOfTheLargestModel) {
  DryCtx dry;
  Ctx& c = dry.c;
  const int64_t before = resident_bytes();
  const WanConfig config = wan_config(model_preset("wan2.2-t2v-a14b").config("transformer/config.json"));
  const WanTransformer model(c, config, dry.weights, DType::bf16);

  // bf16, except 29,184,000 parameters that stay fp32, and rotary tables of 1024 positions
  const auto weights = static_cast<double>(c.weights("transformer").used());
  EXPECT_NEAR(weights, 2.0 * (14'288'491'584 + 29'184'000) + 1024 * 128 * 4, 1e-5 * weights);

  const StepTable steps = model.steps(c, std::vector<float>(40, 500.0f));
  const Text text = model.encode_text(c, c.empty({512, 4096}, DType::bf16, c.request()), 30);
  EXPECT_EQ(text.kv.bytes(), 419'430'400);
  const Tensor latents = c.empty({21, 90, 160, 16}, DType::f32, c.request());
  dry.rank.counts.clear();
  c.scratch().reset_peak();
  model.forward(c, latents, steps, 39, text);

  double total = 0;
  for (const auto& [name, count] : c.counts()) total += count.flops;
  EXPECT_NEAR(total, 6.522e15, 0.001 * 6.522e15);
  const double s = 75'600, d = 5120, layers = 40;
  EXPECT_EQ(flops(c.counts(), "attention"), layers * 4 * s * (s + 512) * d);
  EXPECT_EQ(flops(c.counts(), "linear"), layers * 2 * s * d * (6 * d + 2 * 13824) + 2 * 2 * s * d * 64);

  // residual stream, then the widest moment of a block; see docs of the planner
  const double row = s * d;
  EXPECT_GE(static_cast<double>(c.scratch().peak()), row * (4 + 2 * 5));
  EXPECT_LE(static_cast<double>(c.scratch().peak()), row * (4 + 2 * 8));
  RecordProperty("scratch_peak", cat(c.scratch().peak()));
  EXPECT_LE(resident_bytes() - before, 64 << 20);
}

// What depends on the prompt is made by encode_text, once for each block; a forward has six products a block and none
// of the text's keys and values. Residual updates and the norms behind them are one pass each.
TEST(Models, AForwardMakesNoKeysOfTheTextAndFusesEachResidualWithTheNextNorm) {
  DryCtx dry;
  Ctx& c = dry.c;
  const WanConfig config = wan_config(model_preset("wan2.2-t2v-a14b").config("transformer/config.json"));
  const WanTransformer model(c, config, dry.weights, DType::bf16);
  const StepTable steps = model.steps(c, std::vector<float>(40, 500.0f));
  const auto calls = [&](std::string_view op) { return c.counts().contains(op) ? c.counts().at(op).calls : 0; };
  c.counts().clear();
  const Text text = model.encode_text(c, c.empty({512, 4096}, DType::bf16, c.request()), 30);
  EXPECT_EQ(calls("linear"), 2 + config.layers);
  EXPECT_EQ(calls("norm_rope"), config.layers);
  const Tensor latents = c.empty({5, 32, 60, 16}, DType::f32, c.request());
  c.counts().clear();
  for (const int64_t step : {1, 2}) {
    model.forward(c, latents, steps, step - 1, text);
    EXPECT_EQ(calls("linear"), step * (6 * config.layers + 2));
    EXPECT_EQ(calls("norm_rope"), step * 3 * config.layers);
    EXPECT_EQ(calls("attention"), step * 2 * config.layers);
    EXPECT_EQ(calls("gate_add_norm"), step * 3 * config.layers);
    EXPECT_EQ(calls("norm_modulate"), step);
    EXPECT_EQ(calls("gate_add") + calls("layer_norm"), 0);
  }
}

TEST(Models, ADryDecodeCountsTheWorkOfTheVae) {
  DryCtx dry;
  Ctx& c = dry.c;
  const WanVaeConfig config = wan_vae_config(model_preset("wan2.2-t2v-a14b").config("vae/config.json"));
  const WanVaeDecoder decoder(c, config, dry.weights, DType::f32);
  WanVaeDecoder::Stream stream(decoder);
  const Tensor latents = c.empty({21, 90, 160, 16}, DType::f32, c.request());
  int64_t frames = 0;
  for (int64_t t = 0; t < latents.dim(0); ++t) {
    Scope scope(c.scratch());
    frames += stream.decode_next(c, latents.rows(t, t + 1)).dim(0);
  }
  EXPECT_EQ(frames, config.frames_of(21));
  EXPECT_NEAR(flops(c.counts(), "conv") + flops(c.counts(), "linear"), 0.603e15, 0.002e15);
  EXPECT_EQ(c.scratch().used(), 0u);
  // Streaming: what is held does not grow with the clip. Histories are three frames of each convolution's input; behind
  // the last doubling of frames scratch holds one.
  RecordProperty("scratch_peak", cat(c.scratch().peak()));
  RecordProperty("request_peak", cat(c.request().peak()));
  const double widest = 720.0 * 1280 * 96 * 4;  // one fp32 frame at full size
  EXPECT_LE(static_cast<double>(c.scratch().peak()), 5.5 * widest);
  EXPECT_LE(static_cast<double>(c.request().peak()), 37.5 * widest);
}

struct DecodeNeed {
  size_t scratch, request, largest;
  friend bool operator==(const DecodeNeed&, const DecodeNeed&) = default;
};

// At 1280x720, without the latents themselves.
DecodeNeed decode_need(int64_t latent_frames) {
  DryCtx dry;
  Ctx& c = dry.c;
  const WanVaeConfig config = wan_vae_config(model_preset("wan2.2-t2v-a14b").config("vae/config.json"));
  const WanVaeDecoder decoder(c, config, dry.weights, DType::f32);
  const Tensor latents = c.empty({latent_frames, 90, 160, 16}, DType::f32, c.request());
  const size_t held = c.request().used();
  c.request().reset_peak();
  WanVaeDecoder::Stream stream(decoder);
  for (int64_t t = 0; t < latents.dim(0); ++t) {
    Scope scope(c.scratch());
    stream.decode_next(c, latents.rows(t, t + 1));
  }
  return {c.scratch().peak(), c.request().peak() - held, std::max(c.scratch().largest(), c.request().largest())};
}

// Public reports: buffers of 8 and 26 GB in a decode, growing with the video. Ours has one latent frame at a time.
TEST(Models, ADecodeNeedsNoMoreForALongerVideo) {
  const DecodeNeed need = decode_need(31);  // 121 frames
  EXPECT_LT(need.largest, size_t{4} << 30);
  EXPECT_EQ(need, decode_need(3));
}

TEST(Models, ADryTextEncoderNeedsItsWeightsAndLittleElse) {
  DryCtx dry;
  Ctx& c = dry.c;
  const Umt5Encoder model(c, umt5_config(model_preset("wan2.2-t2v-a14b").config("text_encoder/config.json")),
                          dry.weights, DType::bf16);
  const double weights = static_cast<double>(c.weights("text_encoder").used());
  const double positions = 24 * 32 * 64;  // stay on the host
  EXPECT_NEAR(weights, 2 * (5'680'910'336 - positions), 1e-5 * weights);
  EXPECT_EQ(model.encode(c, std::vector<int32_t>(100, 1)).shape(), Shape({512, 4096}));
  EXPECT_LE(c.scratch().peak(), size_t{64} << 20);
}

}  // namespace
}  // namespace zoetrope
