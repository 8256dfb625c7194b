// What the program says of itself, and of a command line that it cannot read.
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/command.h"

namespace zoetrope {
namespace {

void expect_holds(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << words << "\nis not in\n" << text;
}

TEST(Usage, EveryCommandHasHelp) {
  for (const Words& command :
       {Words{}, {"generate"}, {"inspect"}, {"doctor"}, {"make-toy"}, {"bench"}, {"tune"}, {"serve"}}) {
    const Ran ran = zoetrope(command + Words{"--help"});
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.err, "");
    expect_holds(ran.out, "Usage: zoetrope" + (command.empty() ? "" : " " + command[0]));
  }
  const Ran bare = zoetrope({});
  EXPECT_EQ(bare.status, 0);
  for (const char* command :
       {"generate", "inspect", "doctor", "make-toy", "parity", "bench", "eval", "plan", "tune", "serve"})
    expect_holds(bare.out, command);
}

TEST(Usage, HelpNamesEveryOptionOfTheContract) {
  const std::string help = zoetrope({"generate", "--help"}).out;
  for (const char* option : {"--model",
                             "--prompt",
                             "--prompt-file",
                             "--negative-prompt",
                             "--out",
                             "--config",
                             "--device",
                             "--ranks",
                             "--processes",
                             "--dtype",
                             "--vae-dtype",
                             "--seed",
                             "--noise",
                             "--latents",
                             "--recipe",
                             "--preset",
                             "--steps",
                             "--size",
                             "--width",
                             "--height",
                             "--num-frames",
                             "--frames-policy",
                             "--fps",
                             "--guidance-scale",
                             "--guidance-scale-2",
                             "--flow-shift",
                             "--schedule",
                             "--boundary-ratio",
                             "--report",
                             "--quiet",
                             "--visual_gen_args"})
    expect_holds(help, option);
  expect_holds(help, "zoetrope make-toy --kind wan --out toy");
}

TEST(Usage, TellsItsVersionAndLicences) {
  const Ran version = zoetrope({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.out.starts_with("zoetrope 0.")) << version.out;
  expect_holds(version.out, "oneDNN ");
  expect_holds(version.out, "not built  cuda");
  const Ran licences = zoetrope({"--licenses"});
  EXPECT_EQ(licences.status, 0);
  EXPECT_EQ(licences.out, read_file(ZOETROPE_SOURCE_DIR "/THIRD_PARTY.md", 1u << 20));
}

TEST(Usage, DoctorHasALineACheck) {
  const Ran ran = zoetrope({"doctor"});
  EXPECT_EQ(ran.status, 0) << ran.out;
  expect_holds(ran.out, "PASS  mp4 encoder  zoetrope-mp4 ");
  Program::Setting bare;
  bare.environment = {{"HF_HUB_CACHE", "/nowhere"}};
  expect_holds(zoetrope({"doctor"}, bare).out, "INFO  hub cache    none yet; models are then given as folders\n");
  const Json checks = parse_json(zoetrope({"doctor", "--json"}, bare).out, "doctor");
  EXPECT_EQ(checks.at(0).at("check"), "zoetrope");
  EXPECT_EQ(checks.at(0).at("pass"), true);
  EXPECT_EQ(checks.back().at("check"), "hub cache");
  EXPECT_TRUE(checks.back().at("pass").is_null());
}

TEST(Usage, NamesTheNearestWord) {
  const Words start{"generate", "--model", "x", "--prompt", "a", "--out", "x.mp4"};
  const std::string lists = " (zoetrope generate --help lists all)";
  expect_refusal(zoetrope(start + Words{"--stepz", "3"}),
                 "option --stepz is not known; the nearest is --steps" + lists);
  expect_refusal(zoetrope(start + Words{"--frame=3"}),
                 "option --frame is not known; the nearest is --frames-policy" + lists);
  expect_refusal(zoetrope(start + Words{"--guidance", "3"}),
                 "option --guidance is not known; the nearest is --guidance-scale" + lists);
  expect_refusal(zoetrope(start + Words{"--lora", "3"}), "option --lora is not known" + lists);  // nothing is near
  expect_refusal(zoetrope({"video"}), "command \"video\" is not known (zoetrope --help lists all)");
  expect_refusal(zoetrope({"generat", "--model", "x"}),
                 "command \"generat\" is not known; the nearest is generate (zoetrope --help lists all)");
  expect_refusal(zoetrope({"--versoin"}),
                 "option --versoin is not known; the nearest is --version (zoetrope --help lists all)");
}

TEST(Usage, SaysWhatIsWrongWithAnOption) {
  const Words start{"generate", "--model", "x", "--prompt", "a"};
  expect_refusal(zoetrope(start), "--out is required; zoetrope generate --help says more");
  const Words whole = start + Words{"--out", "x.mp4"};
  expect_refusal(zoetrope(whole + Words{"--steps"}),
                 "option --steps needs a value (zoetrope generate --help says which)");
  expect_refusal(zoetrope(whole + Words{"--steps", "1", "--steps", "2"}), "option --steps is given more than once");
  expect_refusal(zoetrope(whole + Words{"--threads", "many"}), "option --threads: \"many\" is not a whole number");
  expect_refusal(zoetrope(whole + Words{"--threads", "-1"}),
                 "threads: -1 asked for; 1 or more make sense, 0 takes all");
  expect_refusal(zoetrope(whole + Words{"--ranks", "0"}), "ranks: 0 asked for; 1 or more make sense");
  expect_refusal(zoetrope(whole + Words{"on", "a", "beach"}),
                 "generate: \"on\" was not expected here; a value with spaces needs quotes around it");
}

TEST(Usage, SaysWhatIsNotBuilt) {
  for (const char* command : {"eval", "plan", "serve"})
    expect_refusal(zoetrope({command, "--json", "x"}),
                   std::string(command) +
                       ": not built in this version; generate, bench, tune, inspect, doctor, make-toy and parity are");
  expect_refusal(zoetrope({"make-toy", "--kind", "cosmos3", "--out", "x"}),
                 "make-toy: kind cosmos3 is not built in this version; use wan|wan-a14b");
}

TEST(Usage, MakesToys) {
  const TempFolder folder;
  const std::string a = (folder / "a").string(), b = (folder / "b").string(), c = (folder / "c").string();
  for (const auto& [name, seed] : {std::pair{a, "3"}, {b, "3"}, {c, "4"}}) {
    const Ran ran = zoetrope({"make-toy", "--kind", "wan", "--out", name, "--seed", seed});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.out, name + "\n");
  }
  const auto weights = [](const std::string& toy) {
    return read_file(toy + "/transformer/diffusion_pytorch_model.safetensors", 64u << 20);
  };
  EXPECT_EQ(weights(a), weights(b));
  EXPECT_NE(weights(a), weights(c));
  uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(a))
    if (file.is_regular_file()) bytes += file.file_size();
  EXPECT_LT(bytes, 20'000'000u);
  expect_refusal(zoetrope({"make-toy", "--kind", "wan", "--out", a}),
                 "make-toy: " + a + " exists already; remove it or choose another name");
  expect_refusal(zoetrope({"make-toy", "--kind", "wan", "--out", (folder / "d").string(), "--seed", "-1"}),
                 "seed: \"-1\" is not a whole number of 0 or more");
  expect_refusal(zoetrope({"make-toy", "--kind", "wam", "--out", (folder / "d").string()}),
                 "make-toy: kind \"wam\" is not known; use wan|wan-a14b");
  EXPECT_EQ(folder.count(), 3u);
}

TEST(Usage, InspectsNamesFoldersAndFiles) {
  const Ran name = zoetrope({"inspect", "wan2.2-t2v-a14b", "--cost", "--json"});
  EXPECT_EQ(name.status, 0) << name.err;
  const Json facts = parse_json(name.out, "inspect");
  EXPECT_NEAR(facts.at("cost").at("forward_flops").get<double>() / 6.523e15, 1, 1e-3);
  EXPECT_EQ(facts.at("cost").at("dtype"), "fp32");  // what generate would take
  const std::string text =
      zoetrope({"inspect", "random:wan2.1-t2v-14b", "--cost", "--num-frames", "1", "--vae-dtype", "bf16"}).out;
  for (const char* words :
       {"Wan 2.1 T2V-14B (WanPipeline)", "recipe original: 1280x720, 81 frames", "random weights, no file",
        "cost of 1280x720, 1 frame, 50 steps, fp32 (VAE bf16), prompts at their longest\n", " bytes (53.2 GiB)\n",
        " PFLOP ("})
    expect_holds(text, words);
  EXPECT_EQ(text.find("tokenizer"), std::string::npos);
  expect_refusal(zoetrope({"inspect", "wan3"}),
                 "wan3: no such folder; give a folder in the Diffusers layout, a Hugging Face name like owner/name, or "
                 "random:NAME with one of wan2.1-t2v-1.3b, wan2.1-t2v-14b, wan2.2-t2v-a14b");
  const Ran folder = zoetrope({"inspect", toy().string()});
  EXPECT_EQ(folder.status, 0) << folder.err;
  expect_holds(folder.out, "Toy with one expert (random weights)");
  expect_holds(folder.out, " MiB in 1 file\n    complete\n");
  const Ran file = zoetrope({"inspect", (toy() / "vae/diffusion_pytorch_model.safetensors").string()});
  EXPECT_EQ(file.status, 0) << file.err;
  expect_holds(file.out, "Wan 2.1 VAE, 16 latent channels");
}

}  // namespace
}  // namespace zoetrope
