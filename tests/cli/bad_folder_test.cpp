// Model folders that cannot be run, by the words the user reads. Each is found before anything is loaded.
#include <cstring>
#include <functional>
#include <limits>

#include "base/json.h"
#include "cli/command.h"
#include "io/safetensors.h"
#include "io/tokenizer.h"

namespace zoetrope {
namespace {

namespace fs = std::filesystem;

struct Stored {
  std::string name;
  DType type;
  Shape shape;
  std::vector<std::byte> bytes;
};

std::vector<Stored> read_all(const fs::path& path) {
  const SafetensorsFile file(path);
  std::vector<Stored> tensors;
  for (const TensorEntry& entry : file.entries()) {
    const auto bytes = file.bytes(entry);
    tensors.push_back({entry.name, entry.dtype, entry.shape, {bytes.begin(), bytes.end()}});
  }
  return tensors;
}

void write_all(const fs::path& path, std::vector<Stored>& tensors) {
  std::vector<std::pair<std::string, Tensor>> list;
  for (Stored& one : tensors) list.emplace_back(one.name, Tensor(one.bytes.data(), one.shape, one.type));
  write_safetensors(path, list);
}

Stored& named(std::vector<Stored>& tensors, const std::string& name) {
  return *std::ranges::find(tensors, name, &Stored::name);
}

// A copy of a toy to spoil.
struct BadFolder : Refused {
  TempFolder models;
  std::string model;

  void SetUp() override { use("wan"); }
  void use(const std::string& kind) {
    model = (models / kind).string();
    fs::copy(toy(kind), model, fs::copy_options::recursive);
  }
  std::string weights(const std::string& part) const {
    return model + "/" + part + (part == "text_encoder" ? "/model" : "/diffusion_pytorch_model") + ".safetensors";
  }
  void edit_tensors(const std::string& part, const std::function<void(std::vector<Stored>&)>& change) const {
    auto tensors = read_all(weights(part));
    change(tensors);
    write_all(weights(part), tensors);
  }
  void edit_json(const std::string& file, const std::function<void(Json&)>& change) const {
    Json json = read_json(model + "/" + file);
    change(json);
    write_file(model + "/" + file, json.dump());
  }
  std::string bytes(const std::string& part) const { return read_file(weights(part), 64u << 20); }
  void put(const std::string& part, std::string_view text) const { write_file(weights(part), text); }
  void expect_bad(const std::string& words) { expect(generate(model, out), words); }

  // inspect says it, too.
  void expect_bad_and_inspected(const std::string& words) {
    expect_bad(words);
    const Ran inspected = zoetrope({"inspect", model});
    EXPECT_EQ(inspected.status, 2);
    EXPECT_TRUE(inspected.out.ends_with("problem: " + words + "\n")) << inspected.out;
  }
};

std::string with_header(const std::string& header, size_t data) {
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i));
  return text + header + std::string(data, '\0');
}

TEST_F(BadFolder, ThatIsNotThere) {
  const std::string none = (models / "none").string();
  expect(generate(none, out),
         none + ": no such folder; give a folder in the Diffusers layout or a Hugging Face name like owner/name");
  Program::Setting setting;
  setting.environment = {{"HF_HUB_CACHE", (models / "hub").string()}};
  expect(generate("Wan-AI/Wan2.2-T2V-A14B-Diffusers", out),
         "Wan-AI/Wan2.2-T2V-A14B-Diffusers: no such folder, and not in the cache " + (models / "hub").string() +
             "; download it with `hf download Wan-AI/Wan2.2-T2V-A14B-Diffusers` (about 126 GB)",
         setting);
}

TEST_F(BadFolder, WhoseTensorsAreNotTheModels) {
  edit_tensors("transformer", [](auto& tensors) {
    std::erase_if(tensors, [](const Stored& t) { return t.name == "proj_out.bias" || t.name == "proj_out.weight"; });
    tensors.push_back({"stray", DType::f32, {1}, std::vector<std::byte>(4)});
    Stored& table = named(tensors, "scale_shift_table");
    table.shape = {table.shape[1], table.shape[0], table.shape[2]};
  });
  edit_tensors("vae", [](auto& tensors) {
    std::erase_if(tensors, [](const Stored& t) { return t.name == "post_quant_conv.bias"; });
  });
  expect_bad(weights("transformer") +
             ": transformer: 2 missing (proj_out.weight, proj_out.bias), 1 unknown (stray), 1 of another shape "
             "(scale_shift_table is [2, 1, 192], should be [1, 2, 192]); " +
             weights("vae") + ": vae: 1 missing (post_quant_conv.bias)");
}

TEST_F(BadFolder, WhoseSecondExpertIsNotWhole) {
  use("wan-a14b");
  edit_tensors("transformer_2", [](auto& tensors) {
    std::erase_if(tensors, [](const Stored& t) { return t.name == "proj_out.bias"; });
  });
  expect_bad(weights("transformer_2") + ": transformer_2: 1 missing (proj_out.bias)");
}

// The two experts have the same tensors, so only a name can tell. Public reports: a blurred video.
TEST_F(BadFolder, WithItsExpertsExchanged) {
  use("wan-a14b");
  const std::string file = weights("transformer"), low = (models / "wan2.2_t2v_low_noise_14B.safetensors").string();
  fs::rename(file, low);
  fs::create_symlink(low, file);
  const std::string rest = "; transformer/ holds the high-noise expert and transformer_2/ the other: exchange them";
  expect_bad(file + ": calls itself \"" + fs::path(low).filename().string() + "\"" + rest);
  fs::remove(file);
  fs::rename(low, file);
  auto tensors = read_all(weights("transformer_2"));
  std::vector<std::pair<std::string, Tensor>> list;
  for (Stored& one : tensors) list.emplace_back(one.name, Tensor(one.bytes.data(), one.shape, one.type));
  write_safetensors(weights("transformer_2"), list, {{"modelspec.title", "Wan2.2-T2V-High-Noise"}});
  expect_bad(weights("transformer_2") + ": calls itself \"Wan2.2-T2V-High-Noise\"" + rest);
}

TEST_F(BadFolder, WhoseWeightsAreCutShort) {
  const std::string whole = bytes("transformer");
  put("transformer", std::string_view(whole).substr(0, whole.size() - 100));
  const Ran ran = zoetrope(generate(model, out));
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(ran.err.starts_with("zoetrope: " + weights("transformer") + ": tensor \"")) << ran.err;
  EXPECT_TRUE(ran.err.ends_with(" are there; the file is truncated, download it again\n")) << ran.err;
  put("transformer", std::string_view(whole).substr(0, 100));
  const size_t header = static_cast<unsigned char>(whole[0]) + 256u * static_cast<unsigned char>(whole[1]) +
                        65536u * static_cast<unsigned char>(whole[2]);
  expect_bad(cat(weights("transformer"), ": the header needs ", header,
                 " bytes, but the file ends after 92 of them; it is truncated, download it again"));
  put("transformer", "");
  expect_bad(weights("transformer") + ": is empty; download it again");
}

TEST_F(BadFolder, WhoseWeightsBreakTheFormat) {
  const std::string file = weights("transformer");
  put("transformer", bytes("transformer") + "x");
  expect_bad(file + ": 1 bytes follow the last tensor");
  put("transformer", with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                 R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                                 12));
  expect_bad(file + ": tensors \"a\" and \"b\" overlap");
  put("transformer", std::string("\0\0\0\x10\0\0\0\0{}", 10));
  expect_bad(file +
             ": not a safetensors file, or damaged: its header would be 268435456 bytes, more than the 100000000 "
             "allowed");
}

TEST_F(BadFolder, WhoseWeightsAreSomethingElse) {
  const std::string file = weights("transformer");
  put("transformer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n");
  expect_bad(file + ": is a git-lfs pointer, run `git lfs pull`");
  put("transformer", "PK\x03\x04 and more");
  expect_bad(file +
             ": is a PyTorch pickle (.pth, .pt, .bin), which is not read; use the safetensors files of the -Diffusers "
             "repository");
  fs::rename(file, model + "/transformer/weights.pth");
  expect_bad(model +
             "/transformer: holds PyTorch pickles (weights.pth), which are not read; use a repository with safetensors "
             "files");
  fs::rename(model + "/transformer/weights.pth", file + ".incomplete");
  expect_bad(model +
             "/transformer: only a partial download is here (diffusion_pytorch_model.safetensors.incomplete); finish "
             "it first");
}

TEST_F(BadFolder, WhoseIndexNamesAShardThatIsNotThere) {
  const std::string index = weights("transformer") + ".index.json";
  write_file(index, R"({"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})");
  fs::rename(weights("transformer"), model + "/transformer/m-1.safetensors");
  expect_bad(index + ": 1 of 2 shards are missing: m-2.safetensors; finish the download");
}

TEST_F(BadFolder, WhoseEmbeddingHoldsOnlyZeros) {
  edit_tensors("text_encoder", [](auto& tensors) {
    for (Stored& one : tensors)
      if (one.name == "shared.weight" || one.name == "encoder.embed_tokens.weight")
        std::ranges::fill(one.bytes, std::byte{0});
  });
  const std::string words = weights("text_encoder") +
                            ": text_encoder: the embedding table holds only zeros (1 tried (shared.weight)); the file "
                            "was saved without it, download it again";
  expect_bad_and_inspected(words);
}

TEST_F(BadFolder, WhoseTokenizerIsAnotherModels) {
  edit_tensors("text_encoder", [](auto& tensors) {
    Stored& table = named(tensors, "shared.weight");
    table.bytes.resize(table.bytes.size() / static_cast<size_t>(table.shape[0]) * 100);
    table.shape = table.shape.with(0, 100);
  });
  const std::string words =
      cat(model, "/tokenizer: gives token ids up to ", Tokenizer::open(model + "/tokenizer")->ids() - 1,
          ", the embedding table of ", weights("text_encoder"), " has 100 rows; take both from one repository");
  expect_bad_and_inspected(words);
}

// The VAE comes last: nothing of a denoise may come before these words. Exit 2, not the 4 of a result that is not
// finite.
TEST_F(BadFolder, WhoseWeightsAreNotFinite) {
  edit_tensors("vae", [](auto& tensors) {
    Stored& bias = named(tensors, "decoder.conv_in.bias");
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bias.bytes.data() + bias.bytes.size() - sizeof nan, &nan, sizeof nan);
  });
  const Ran ran = zoetrope(generate(model, out));
  EXPECT_EQ(ran.status, 2);
  EXPECT_TRUE(ran.err.ends_with("zoetrope: " + weights("vae") +
                                ": tensor \"decoder.conv_in.bias\" holds values that are not finite; the file is "
                                "damaged, download it again\n"))
      << ran.err;
  EXPECT_EQ(ran.err.find("denoise"), std::string::npos) << ran.err;
  EXPECT_EQ(folder.count(), 0u);
}

TEST_F(BadFolder, OfAnUnknownClass) {
  edit_json("transformer/config.json", [](Json& json) { json["_class_name"] = "FluxTransformer2DModel"; });
  expect_bad(model +
             "/transformer/config.json: model class \"FluxTransformer2DModel\" is not built; these are: "
             "UMT5EncoderModel, WanTransformer3DModel, AutoencoderKLWan");
  edit_json("transformer/config.json", [](Json& json) { json["_class_name"] = "AutoencoderKLWan"; });
  expect_bad(model + "/transformer/config.json: AutoencoderKLWan is a vae, a transformer belongs here");
  edit_json("model_index.json", [](Json& json) { json["_class_name"] = "FluxPipeline"; });
  expect_bad(model +
             "/model_index.json: pipeline class \"FluxPipeline\" is not known; known are WanPipeline, "
             "WanImageToVideoPipeline, Cosmos3OmniDiffusersPipeline");
}

TEST_F(BadFolder, OfAnotherKindOfWan) {
  edit_json("model_index.json", [](Json& json) { json["_class_name"] = "WanImageToVideoPipeline"; });
  expect_bad(model +
             ": an image-to-video model (WanImageToVideoPipeline); this version makes video from text: use a T2V "
             "model, such as Wan-AI/Wan2.2-T2V-A14B-Diffusers");
  edit_json("model_index.json", [](Json& json) {
    json["_class_name"] = "WanPipeline";
    json["expand_timesteps"] = true;
  });
  edit_json("transformer/config.json", [](Json& json) { json["in_channels"] = json["out_channels"] = 48; });
  expect_bad(model +
             "/transformer/config.json: transformer: 48 input channels, so this is Wan 2.2 TI2V-5B; its per-token "
             "timesteps and its VAE are not built, Wan 2.2 T2V-A14B and Wan 2.1 T2V are");
}

TEST_F(BadFolder, WithTheVaeOfAnotherModel) {
  edit_json("vae/config.json", [](Json& json) { json["z_dim"] = 48, json["is_residual"] = true; });
  expect_bad(model +
             "/vae/config.json: vae: is_residual and 48 latent channels, so this is the Wan 2.2 VAE (of TI2V-5B and "
             "Cosmos3), which is not built; the 2.1 VAE is");
  edit_json("vae/config.json", [](Json& json) {
    json["z_dim"] = 8, json["is_residual"] = false;
    json["latents_mean"] = json["latents_std"] = std::vector<float>(8, 1.0f);
  });
  expect_bad(model +
             "/vae/config.json: this VAE makes latents of 8 channels, the transformer takes 16; take both from one "
             "repository");
}

TEST_F(BadFolder, InTheLayoutOfTheAuthors) {
  const std::string original = (models / "original").string();
  fs::create_directories(original + "/high_noise_model");
  write_file(original + "/Wan2.1_VAE.pth", "PK\x03\x04");
  expect(generate(original, out),
         original +
             ": holds the original Wan layout (Wan2.1_VAE.pth, high_noise_model/); use the -Diffusers repository of "
             "the same name, for example `hf download Wan-AI/Wan2.2-T2V-A14B-Diffusers`");
}

TEST_F(BadFolder, ThatIsPartOfOne) {
  expect(generate(model + "/vae", out),
         model + "/vae: is one component (AutoencoderKLWan); give the folder above it, which holds model_index.json");
  expect(generate(weights("vae"), out),
         weights("vae") + ": is a single file; give a folder in the Diffusers layout (it holds model_index.json)");
  fs::remove_all(model + "/tokenizer");
  expect_bad(model + "/model_index.json: names components that are not there: tokenizer/; finish the download");
  fs::remove(model + "/model_index.json");
  expect_bad(model + ": no model_index.json here; give a folder in the Diffusers layout (it holds model_index.json)");
}

// Found by a newcomer: an unfinished download was inspected up to its first fault.
TEST_F(BadFolder, IsInspectedToItsEnd) {
  fs::remove_all(model + "/vae");
  fs::remove(model + "/scheduler/scheduler_config.json");
  for (const auto& file : fs::directory_iterator(model + "/tokenizer")) fs::remove(file);
  put("transformer", "");
  edit_json("text_encoder/config.json", [](Json& json) { json["architectures"] = {"CLIPTextModel"}; });
  const Ran ran = zoetrope({"inspect", model, "--json", "--cost"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err, "");
  const Json problems = parse_json(ran.out, "inspect").at("problems");
  const Words about{"/tokenizer", "/text_encoder/config.json: model class \"CLIPTextModel\" is not built",
                    "/transformer/", "/scheduler/scheduler_config.json: cannot be opened",
                    "/vae: is not there; finish the download"};
  EXPECT_EQ(problems.size(), about.size()) << problems.dump(2);
  for (const std::string& one : about)
    EXPECT_EQ(
        std::ranges::count_if(problems, [&](const Json& p) { return p.get<std::string>().starts_with(model + one); }),
        1)
        << one << problems.dump(2);
  const std::string text = zoetrope({"inspect", model}).out;
  for (const Json& problem : problems) {
    const auto said = problem.get<std::string>();
    EXPECT_EQ(text.find(said), text.rfind(said)) << text;  // once
    EXPECT_NE(text.find("problem: " + said), std::string::npos) << text;
  }
}

TEST_F(BadFolder, IsInspectedWithItsProblems) {
  edit_tensors("vae", [](auto& tensors) {
    std::erase_if(tensors, [](const Stored& t) { return t.name == "post_quant_conv.bias"; });
  });
  const Ran ran = zoetrope({"inspect", model});
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err, "");
  EXPECT_NE(ran.out.find("\nproblem: " + weights("vae") + ": vae: 1 missing (post_quant_conv.bias)\n"),
            std::string::npos)
      << ran.out;
}

}  // namespace
}  // namespace zoetrope
