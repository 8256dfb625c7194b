#include "engine/inspect.h"

#include <gtest/gtest.h>

#include <fstream>

#include "config/request.h"
#include "engine/jobs.h"
#include "pipeline/facts.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word)
    if (word == "VmRSS:") status >> kib;
  return kib;
}

const OrderedJson& part(const OrderedJson& facts, const std::string& name) {
  for (const OrderedJson& one : facts.at("parts"))
    if (one.at("name") == name) return one;
  throw std::runtime_error("no part " + name);
}

TEST(Inspect, CountsTheParametersOfTheReleasedModel) {
  const OrderedJson facts = inspect_model(open_random_model("wan2.2-t2v-a14b", 0, nullptr));
  EXPECT_EQ(part(facts, "transformer").at("parameters"), 14'288'491'584);
  EXPECT_EQ(part(facts, "transformer_2").at("parameters"), 14'288'491'584);
  EXPECT_EQ(facts.at("what"), "Wan 2.2 T2V-A14B (two experts)");
  EXPECT_EQ(facts.at("recipes").at("original").at("flow_shift"), 12.0);
  EXPECT_EQ(facts.at("recipes").at("folder").at("flow_shift"), 3.0);
  EXPECT_TRUE(facts.at("problems").empty());
  EXPECT_NE(inspect_as_text(facts).find("14,288,491,584 parameters in 1095 tensors"), std::string::npos);
}

TEST(Inspect, PricesTheReleasedModelWithoutAllocatingIt) {
  const ModelSource source = open_random_model("wan2.2-t2v-a14b", 0, nullptr);
  const Request request = resolve({}, model_info(source), 0);
  const int64_t before = resident_kib();
  ASSERT_GT(before, 0);
  const OrderedJson cost = inspect_cost(source, request, DType::bf16, DType::bf16);
#if defined(__SANITIZE_ADDRESS__)
  constexpr int64_t allowed = 1 << 20;  // ASan keeps what was freed for a while
#else
  constexpr int64_t allowed = 32 << 10;
#endif
  EXPECT_LT(resident_kib() - before, allowed);
  EXPECT_EQ(cost.at("size"), "1280x720");
  EXPECT_EQ(cost.at("tokens"), 75'600);
  EXPECT_NEAR(cost.at("forward_flops").get<double>() / 6.523e15, 1, 1e-3);
  const auto& memory = cost.at("memory");
  EXPECT_GT(memory.at("weights").at("transformer"), int64_t{2} * 14'288'491'584);  // bf16, some of it fp32
  EXPECT_LT(memory.at("weights").at("transformer"), int64_t{2} * 14'500'000'000);
  int64_t sum = memory.at("request").get<int64_t>() + memory.at("scratch").get<int64_t>();
  for (const auto& [component, bytes] : memory.at("weights").items()) sum += bytes.get<int64_t>();
  EXPECT_EQ(memory.at("total"), sum);
}

TEST(Inspect, SaysWhatAFolderHolds) {
  const OrderedJson facts = inspect_model(open_model_folder(toy_folder()));
  EXPECT_EQ(facts.at("what"), "Toy with one expert (random weights)");
  EXPECT_EQ(facts.at("class"), "WanPipeline");
  const OrderedJson& transformer = part(facts, "transformer");
  EXPECT_TRUE(transformer.at("problem").is_null());
  EXPECT_EQ(transformer.at("stored"), (OrderedJson{{"F32", transformer.at("tensors")}}));
  EXPECT_EQ(transformer.at("files"), (OrderedJson{"diffusion_pytorch_model.safetensors"}));
}

TEST(Inspect, CallsAModelThatNoRecipeKnowsByWhatItIs) {
  const TempFolder folder;
  fs::copy(toy_folder(), folder / "mine", fs::copy_options::recursive);
  Json config = read_json(folder / "mine/transformer/config.json");
  config["num_layers"] = 2;
  write_file(folder / "mine/transformer/config.json", config.dump());
  const OrderedJson facts = inspect_model(open_model_folder(folder / "mine"));
  EXPECT_EQ(facts.at("what"), "Wan text-to-video model without a recipe of its own");
  EXPECT_FALSE(facts.at("recipes").contains("original"));
  EXPECT_EQ(facts.at("recipes").at("folder").at("recipe"), "wan/folder");
}

TEST(Inspect, FindsATokenizerThatCannotBeUsed) {
  const TempFolder folder;
  write_toy("wan", folder / "toy", 0);
  const std::string file = folder.put("toy/tokenizer/spiece.model", "\x0a\xff\xff").string();
  const OrderedJson facts = inspect_model(open_model_folder(folder / "toy"));
  ASSERT_EQ(facts["problems"].size(), 1u);
  EXPECT_EQ(facts["problems"][0], file + ": not a usable SentencePiece model");
}

TEST(Inspect, GuessesWhatAFileIs) {
  const OrderedJson facts = inspect_file(toy_folder() / "vae/diffusion_pytorch_model.safetensors");
  EXPECT_EQ(facts.at("looks_like"), "Wan 2.1 VAE, 16 latent channels");
  EXPECT_EQ(facts.at("metadata").at("format"), "pt");
  EXPECT_GT(facts.at("parameters"), 0);
  EXPECT_EQ(inspect_file(toy_folder() / "text_encoder/model.safetensors").at("looks_like"), "UMT5 text encoder");
}

// Public reports: a 5B model taken for image to video, one of the two experts for Wan 2.1.
TEST(Inspect, TellsTheReleasedTransformersApart) {
  const TempFolder folder;
  const auto kind = [&](int64_t width, int64_t channels, const std::string& prefix, const std::string& more) {
    std::vector<uint8_t> bytes(static_cast<size_t>(width * channels * 4));
    const std::string name = prefix + "patch_embedding.weight";
    write_safetensors(folder / "x.safetensors", {{name, Tensor(bytes.data(), {width, channels, 1, 2, 2}, DType::u8)},
                                                 {more, Tensor(bytes.data(), {1}, DType::u8)}});
    return inspect_file(folder / "x.safetensors").at("looks_like").get<std::string>();
  };
  EXPECT_EQ(kind(3072, 48, "", "x"), "Wan 2.2 TI2V-5B transformer");
  EXPECT_EQ(kind(1536, 16, "", "x"), "Wan 2.1 T2V-1.3B transformer");
  EXPECT_EQ(kind(5120, 16, "", "x"), "Wan 2.1 T2V-14B transformer, or one expert of Wan 2.2 T2V-A14B");
  EXPECT_EQ(kind(5120, 36, "", "x"), "one expert of Wan 2.2 I2V-A14B");
  EXPECT_EQ(kind(5120, 36, "", "img_emb.proj.0.weight"), "Wan 2.1 I2V or FLF2V-14B transformer");
  EXPECT_EQ(kind(3072, 48, "model.diffusion_model.", "model.diffusion_model.head.modulation"),
            "Wan 2.2 TI2V-5B transformer (original names: use the -Diffusers repository)");
}

}  // namespace
}  // namespace zoetrope
