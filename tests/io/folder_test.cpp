#include "io/folder.h"

#include <gtest/gtest.h>

#include "io/hub.h"
#include "io/temp_folder.h"
#include "support/words.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

constexpr const char* t2v = R"({"_class_name":"WanPipeline","_diffusers_version":"0.35.0","boundary_ratio":0.875,
  "expand_timesteps":false,"transformer":["diffusers","WanTransformer3DModel"],"transformer_2":[null,null],
  "vae":["diffusers","AutoencoderKLWan"],"image_encoder":[null,null]})";

void put_model(const TempFolder& folder, const std::string& at = "") {
  folder.put(at + "model_index.json", t2v);
  folder.put(at + "transformer/config.json", "{}");
  folder.put(at + "vae/config.json", "{}");
}

std::string refusal(const fs::path& folder) {
  return words([&] { read_model_folder(folder); });
}

TEST(ModelFolder, SaysWhatItHolds) {
  const TempFolder folder;
  put_model(folder);
  const ModelFolder model = read_model_folder(folder.path());
  EXPECT_EQ(model.class_name, "WanPipeline");
  ASSERT_EQ(model.components.size(), 2u);
  EXPECT_EQ(model.at("vae").class_name, "AutoencoderKLWan");
  EXPECT_EQ(model.at("vae").library, "diffusers");
  EXPECT_EQ(model.at("vae").folder, folder / "vae");
  EXPECT_EQ(model.find("transformer_2"), nullptr);
  EXPECT_EQ(model.boundary_ratio, 0.875);
  EXPECT_FALSE(model.expand_timesteps);
  EXPECT_EQ(words([&] { model.at("transformer_2"); }),
            folder.path().string() + ": model_index.json names no transformer_2");
}

TEST(ModelFolder, KnowsTheSettingsOfAnImageModel) {
  const TempFolder folder;
  folder.put("model_index.json", R"({"_class_name":"WanPipeline","boundary_ratio":null,"expand_timesteps":true})");
  const ModelFolder model = read_model_folder(folder.path());
  EXPECT_FALSE(model.boundary_ratio.has_value());
  EXPECT_TRUE(model.expand_timesteps);
  EXPECT_TRUE(model.settings.contains("expand_timesteps"));
}

TEST(ModelFolder, NamesWhatIsMissing) {
  const TempFolder folder;
  const std::string where = folder.path().string();
  EXPECT_EQ(refusal(folder / "none"), where +
                                          "/none: no such folder; give a folder in the Diffusers layout (it holds "
                                          "model_index.json) or a Hugging Face name like owner/name");
  EXPECT_EQ(refusal(folder.path()),
            where + ": no model_index.json here; give a folder in the Diffusers layout (it holds model_index.json)");
  put_model(folder);
  fs::remove_all(folder / "vae");
  EXPECT_EQ(refusal(folder.path()),
            where + "/model_index.json: names components that are not there: vae/; finish the download");
}

TEST(ModelFolder, RecognisesTheOriginalWanLayout) {
  const TempFolder folder;
  folder.put("high_noise_model/config.json", "{}");
  folder.put("low_noise_model/config.json", "{}");
  folder.put("Wan2.1_VAE.pth", "PK");
  EXPECT_EQ(refusal(folder.path()),
            folder.path().string() +
                ": holds the original Wan layout (Wan2.1_VAE.pth, high_noise_model/, low_noise_model/); use the "
                "-Diffusers repository of the same name, for example `hf download Wan-AI/Wan2.2-T2V-A14B-Diffusers`");
}

TEST(ModelFolder, RecognisesASingleFileAndAComponent) {
  const TempFolder folder;
  folder.put("wan.safetensors", "x");
  EXPECT_EQ(refusal(folder / "wan.safetensors"), (folder / "wan.safetensors").string() +
                                                     ": is a single file; give a folder in the Diffusers layout (it "
                                                     "holds model_index.json)");
  folder.put("transformer/config.json", R"({"_class_name":"WanTransformer3DModel"})");
  EXPECT_EQ(refusal(folder / "transformer"),
            (folder / "transformer").string() +
                ": is one component (WanTransformer3DModel); give the folder above it, which holds model_index.json");
  folder.put("text_encoder/config.json", R"({"architectures":["UMT5EncoderModel"]})");
  EXPECT_EQ(refusal(folder / "text_encoder"),
            (folder / "text_encoder").string() +
                ": is one component (UMT5EncoderModel); give the folder above it, which holds model_index.json");
}

TEST(ModelFolder, RefusesAnotherClassAndBrokenIndexes) {
  const TempFolder folder;
  const std::string index = (folder / "model_index.json").string();
  folder.put("model_index.json", R"({"_class_name":"FluxPipeline"})");
  EXPECT_EQ(refusal(folder.path()), index +
                                        ": pipeline class \"FluxPipeline\" is not known; known are WanPipeline, "
                                        "WanImageToVideoPipeline, Cosmos3OmniDiffusersPipeline");
  folder.put("model_index.json", R"({"_class_name":"WanPipeline","../x":["diffusers","Y"]})");
  EXPECT_EQ(refusal(folder.path()), index + ": \"../x\" is not the name of a component");
  folder.put("model_index.json", "[]");
  EXPECT_EQ(refusal(folder.path()), index + ": not a JSON object");
  folder.put("model_index.json", R"({"_class_name":"WanPipeline","boundary_ratio":"high"})");
  EXPECT_EQ(refusal(folder.path()), index + ": \"boundary_ratio\" is \"high\", which is a string");
  folder.put("model_index.json", R"({"_class_name":"WanPipeline","boundary_ratio":875})");
  EXPECT_EQ(refusal(folder.path()), index + ": boundary_ratio is 875, 0 to 1 makes sense");
}

TEST(HubCache, IsFoundAsTheHubsOwnToolsDo) {
  EXPECT_EQ((HubCache{"/a", "/b", "/c", "/d"}.folder()), "/a");
  EXPECT_EQ((HubCache{"", "/b", "/c", "/d"}.folder()), "/b/hub");
  EXPECT_EQ((HubCache{"", "", "/c", "/d"}.folder()), "/c/huggingface/hub");
  EXPECT_EQ((HubCache{"", "", "", "/d"}.folder()), "/d/.cache/huggingface/hub");
}

constexpr const char* name = "Wan-AI/Wan2.2-T2V-A14B-Diffusers";
constexpr const char* repository = "models--Wan-AI--Wan2.2-T2V-A14B-Diffusers";

struct Hub : ::testing::Test {
  TempFolder folder;
  HubCache cache{folder.path().string(), "", "", ""};
  std::string snapshot = cat(repository, "/snapshots/0123abcd/");

  std::string refusal() {
    return words([&] { resolve_model(name, cache); });
  }
  std::string incomplete(const std::string& what) {
    return cat(name, ": the download in ", (folder / repository).string(), " is not complete: missing ", what,
               "; finish it with `hf download ", name, "` (about 126 GB)");
  }
};

TEST_F(Hub, ResolvesANameToItsSnapshot) {
  put_model(folder, snapshot);
  folder.put(cat(repository, "/refs/main"), "0123abcd\n");
  folder.put(cat(repository, "/snapshots/ffff/old"), "");
  EXPECT_EQ(resolve_model(name, cache), folder / cat(repository, "/snapshots/0123abcd"));
}

TEST_F(Hub, TakesAFolderAsItIs) { EXPECT_EQ(resolve_model(folder.path().string(), cache), folder.path()); }

TEST_F(Hub, PrintsTheDownloadCommand) {
  EXPECT_EQ(refusal(), cat(name, ": no such folder, and not in the cache ", folder.path().string(),
                           "; download it with `hf download ", name, "` (about 126 GB)"));
  EXPECT_TRUE(words([&] {
                resolve_model("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", cache);
              }).ends_with("`hf download Wan-AI/Wan2.1-T2V-1.3B-Diffusers` (about 29 GB)"));
  EXPECT_EQ(words([&] { resolve_model("a/b", HubCache{}); }),
            "a/b: no such folder, and not in the cache (HOME is not set); download it with `hf download a/b`");
  EXPECT_EQ(words([&] { resolve_model("..a/b", cache); }),
            "..a/b: no such folder; give a folder in the Diffusers layout or a Hugging Face name like owner/name");
  EXPECT_EQ(words([&] { resolve_model("", cache); }),
            "model: no name given; use a folder or a Hugging Face name like owner/name");
}

TEST_F(Hub, NamesWhatADownloadStillLacks) {
  folder.put(cat(repository, "/blobs/0f.incomplete"), "");
  EXPECT_EQ(refusal(), incomplete("model_index.json, 1 partial files (.incomplete)"));
  put_model(folder, snapshot);
  EXPECT_EQ(resolve_model(name, cache), folder / cat(repository, "/snapshots/0123abcd"));
  folder.put(snapshot + "transformer/diffusion_pytorch_model.safetensors.index.json",
             R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  folder.put(snapshot + "transformer/m-1.safetensors", "");
  fs::remove_all(folder / (snapshot + "vae"));
  fs::create_symlink("../../../blobs/77", folder / (snapshot + "transformer/config2.json"));
  EXPECT_EQ(refusal(),
            incomplete("transformer/config2.json, transformer/m-2.safetensors, vae/, 1 partial files (.incomplete)"));
}

}  // namespace
}  // namespace zoetrope
