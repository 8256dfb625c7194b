// Ctrl-C: exit 130 soon, no partial file. "Soon" is counted in work, since a busy machine stretches every second: what
// comes a while after the moment of the signal must not be reached.
#include <gtest/gtest.h>

#include "cli/command.h"

namespace zoetrope {
namespace {

// Long enough for each stage to be met.
Words longer(const std::string& out, const std::string& report) {
  return {"generate",
          "--model",
          toy("wan-a14b").string(),
          "--out",
          out,
          "--prompt",
          "a cat",
          "--size",
          "96x96",
          "--steps",
          "40",
          "--report",
          report,
          "--num-frames",
          "49"};
}

struct Moment {
  const char *name, *seen, *never, *out;
};
void PrintTo(const Moment& moment, std::ostream* out) { *out << moment.name; }

class Interrupted : public testing::TestWithParam<Moment> {};

TEST_P(Interrupted, EndsWithoutATrace) {
  const TempFolder folder;
  Program program(program_file, longer((folder / GetParam().out).string(), (folder / "r.json").string()));
  ASSERT_TRUE(program.wait_for(GetParam().seen));
  program.signal(SIGINT);
  const Ran ran = program.wait();
  EXPECT_EQ(ran.status, 130);
  EXPECT_EQ(ran.out, "");
  EXPECT_TRUE(ran.err.ends_with("\nzoetrope: cancelled\n")) << ran.err;
  EXPECT_EQ(ran.err.find(GetParam().never), std::string::npos) << ran.err;
  EXPECT_EQ(folder.count(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Stages, Interrupted,
                         testing::Values(Moment{"load", "load 1/4", "denoise 30/40", "x.mp4"},
                                         Moment{"text", "text_encode", "vae_decode", "x.mp4"},
                                         Moment{"denoise", "denoise 2/40", "vae_decode", "x.mp4"},
                                         Moment{"decode", "vae_decode 1/49", "49/49", "x.mp4"},
                                         Moment{"images", "vae_decode 5/49", "49/49", "frames"},
                                         Moment{"tensors", "vae_decode 1/49", "49/49", "x.safetensors"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Interrupts, TwoEndAtOnceAndStillClean) {
  const TempFolder folder;
  Program program(program_file, longer((folder / "frames").string(), (folder / "r.json").string()));
  ASSERT_TRUE(program.wait_for("vae_decode 1/49"));
  program.signal(SIGINT);
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().status, 130);
  EXPECT_EQ(folder.count(), 0u);
}

TEST(Interrupts, AHangUpIsOne) {
  const TempFolder folder;
  Program program(program_file, longer((folder / "x.safetensors").string(), (folder / "r.json").string()));
  ASSERT_TRUE(program.wait_for("vae_decode 1/49"));
  program.signal(SIGHUP);
  EXPECT_EQ(program.wait().status, 130);
  EXPECT_EQ(folder.count(), 0u);
}

TEST(Interrupts, LeaveAnOlderVideoAlone) {
  const TempFolder folder;
  folder.put("x.safetensors", "the video of yesterday");
  Program program(program_file, longer((folder / "x.safetensors").string(), (folder / "r.json").string()));
  ASSERT_TRUE(program.wait_for("vae_decode 1/49"));
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().status, 130);
  EXPECT_EQ(read_file(folder / "x.safetensors", 1000), "the video of yesterday");
  EXPECT_EQ(folder.count(), 1u);
}

}  // namespace
}  // namespace zoetrope
